"""Second implementations of networks, token by token and head by head, which autograd can take."""

import math

import autograd.numpy as anp

from iclimit.simulate.models.embedded_descent import EmbeddedDescent
from iclimit.simulate.models.linear_attention import LinearAttention
from iclimit.simulate.models.lstm import LstmNetwork
from iclimit.simulate.models.merged_heads import MergedHeads
from iclimit.simulate.models.recurrent_layer import RecurrentLayer
from iclimit.simulate.models.stack import AttentionNetwork, CausalNetwork


def answers(network, w, x, y, query):
    """Predictions (n,) of a network with these weights."""
    return PLAIN[type(network)](network, w, x, y, query)


def layer_norm(e, scale, offset):
    mean = anp.mean(e, axis=-1)
    variance = anp.var(e, axis=-1)
    return (e - mean[..., None]) / anp.sqrt(variance[..., None] + 1e-5) * scale + offset


def perceptron(e, w, name, *index):
    inner = anp.einsum("nti,ij->ntj", e, w[f"{name}_in"][index]) + w[f"{name}_in_bias"][index]
    inner = inner / (1 + anp.exp(-2 * math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
    return anp.einsum("nti,ij->ntj", inner, w[f"{name}_out"][index]) + w[f"{name}_out_bias"][index]


def tokens_of(network, x, y, query):
    n, context, dim = x.shape
    rows = []
    for i in range(context):
        if network.tokens == "pairs":
            rows.append(anp.concatenate([x[:, i], y[:, i, None]], axis=1))
        else:
            rows.append(x[:, i])
            rows.append(anp.concatenate([anp.zeros((n, dim - 1)), y[:, i, None]], axis=1))
    pad = anp.zeros((n, 1 if network.tokens == "pairs" else 0))
    return anp.stack([*rows, anp.concatenate([query, pad], axis=1)], axis=1)


def attention(network, w, e, layers=None):
    """Tokens after some layers, each of them in full and head by head; None: the predictions."""
    n = e.shape[0]
    if network.width:
        e = anp.einsum("nti,ij->ntj", e, w["embedding"]) + w["embedding_bias"]
    if network.embedding_mlp:
        e = e + perceptron(e, w, "embedding_mlp")
    if network.positions:
        at = anp.zeros((n, e.shape[1], network.positions))
        for p in range(e.shape[1]):
            for k in range(network.positions):
                angle = p / 10000 ** (k // 2 * 2 / network.positions)
                at[:, p, k] = math.cos(angle) if k % 2 else math.sin(angle)
        e = anp.concatenate([e, at], axis=2)
    m = e.shape[2]
    for layer in range(network.layers if layers is None else layers):
        i = 0 if network.shared else layer
        read = e
        if network.layer_norm:
            read = layer_norm(e, w["attention_scale"][i], w["attention_offset"][i])
        for h in range(network.heads):
            made = {}
            for name in ("query", "key", "value"):
                made[name] = anp.einsum("nti,ij->ntj", read, w[name][i][:, h * m : (h + 1) * m])
                if network.width:
                    made[name] = made[name] + w[f"{name}_bias"][i][h * m : (h + 1) * m]
            scores = anp.einsum("nti,nsi->nts", made["query"], made["key"])
            if network.kinds[layer] == "softmax":
                scores = anp.exp(scores / math.sqrt(m))
            if network.causal:
                scores = scores * anp.tril(anp.ones(scores.shape[1:]))
            elif not network.include_query:
                scores = scores[:, :, :-1]
            if network.kinds[layer] == "softmax":
                scores = scores / anp.sum(scores, axis=2)[:, :, None]
            mixed = anp.einsum("nts,nsi->nti", scores, made["value"][:, : scores.shape[2]])
            e = e + anp.einsum("nti,ij->ntj", mixed, w["output"][i][h * m : (h + 1) * m])
        if network.width:
            e = e + w["output_bias"][i]
        if network.mlp:
            read = e
            if network.layer_norm:
                read = layer_norm(e, w["mlp_scale"][i], w["mlp_offset"][i])
            e = e + perceptron(read, w, "mlp", i)
    if layers is not None:
        return e
    if network.width:
        return anp.einsum("ni,ij->n", e[:, -1], w["readout"]) + w["readout_bias"][0]
    return -e[:, -1, -1]


def linear_attention(network, w, x, y, query):
    """Sums over heads and tokens of P V e (K e)' Q e', as the equations stand."""
    e = tokens_of(AttentionNetwork(network.dim), x, y, query)
    for layer in range(network.layers):
        place = 0 if network.shared else layer
        made = e
        for head in range(network.heads):
            names = "key", "query", "value", "projection"
            key, asked, value, out = (w[name][place, head] for name in names)
            source = e if network.include_query else e[:, :-1]
            scores = anp.einsum("nti,nsi->nts", e @ asked.T, source @ key.T)
            made = made + anp.einsum("nts,nsi->nti", scores, source @ value.T @ out.T)
        e = made
    return -e[:, -1, -1]


def lstm(network, weights, inputs, labels, query):
    """Predictions, token by token as the equations stand."""
    n = query.shape[0]
    hidden = network.hidden
    tokens = [anp.hstack([inputs[:, t], labels[:, t, None]]) for t in range(inputs.shape[1])]
    tokens.append(anp.hstack([query, anp.zeros((n, 1))]))
    for layer in range(network.layers):
        found = []
        for direction in range(1 + network.bidirectional):
            own = [
                weights[f"{part}_{layer}"][direction] for part in ("input", "recurrent", "bias")
            ]
            h = anp.zeros((n, hidden))
            c = anp.zeros((n, hidden))
            states = []
            for token in tokens[::-1] if direction else tokens:
                a = token @ own[0].T + h @ own[1].T + own[2]
                i, f, o, g = (a[:, k * hidden : (k + 1) * hidden] for k in range(4))
                c = c / (1 + anp.exp(-f)) + anp.tanh(g) / (1 + anp.exp(-i))
                h = anp.tanh(c) / (1 + anp.exp(-o))
                states.append(h)
            found.append(states[::-1] if direction else states)
        tokens = [anp.hstack(states) for states in zip(*found, strict=True)]
    return tokens[-1] @ weights["readout"]


def merged_heads(network, w, x, y, query):
    """Predictions head by head and token by token."""
    total = 0.0
    for h in range(network.heads):
        scores = []
        labels = []
        for i in range(x.shape[1]):
            token = anp.concatenate([x[:, i], y[:, i, None]], axis=1)
            scores.append(anp.sum(token * anp.dot(query, w["lookup"][h].T), axis=1))
            labels.append(anp.dot(token, w["value"][h]))
        powers = anp.exp(anp.stack(scores))
        total = total + anp.sum(powers * anp.stack(labels), axis=0) / anp.sum(powers, axis=0)
    return total


def embedded_descent(network, w, x, y, query):
    """One step of gradient descent on embedded inputs."""

    def embed(inputs):
        first = inputs @ w["embedding"] + w["embedding_bias"]
        inner = first @ w["mlp_in"] + w["mlp_in_bias"]
        inner = inner / (1 + anp.exp(-2 * math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
        return first + inner @ w["mlp_out"] + w["mlp_out_bias"]

    assert network.width == w["embedding"].shape[1]
    return anp.mean(anp.einsum("nw,niw->ni", embed(query), embed(x)) * y, axis=1)


def recurrent_layer(network, w, x, y, query):
    """Predictions from the matrices that multiply the memory of a prompt, pair by pair."""
    n, context, dim = x.shape
    scale = w["preconditioner"] if network.preconditioned else anp.ones(dim)
    gate = w["gate"] * anp.ones(dim) if network.gated else anp.ones(dim)
    steps = w["step"] * anp.ones(context) if "step" in w else anp.ones(context)
    answers = []
    for prompt in range(n):
        memory = anp.zeros(dim)
        for t in range(context):
            pair = anp.append(x[prompt, t], y[prompt, t])
            logit = anp.dot(w["selectivity"], pair) if network.selective else 0.0
            time = 2 / (1 + anp.exp(-logit))
            written = steps[t] * time * scale * x[prompt, t]
            moved = anp.eye(dim) - network.corrects * anp.outer(written, x[prompt, t])
            memory = anp.dot(moved, gate**time * memory) + written * y[prompt, t]
        answers.append(w["readout"][0] * anp.dot(query[prompt], memory))
    return anp.stack(answers)


def whole_attention(network, w, *prompts):
    """Predictions of layers of attention."""
    return attention(network, w, tokens_of(network, *prompts))


PLAIN = {
    AttentionNetwork: whole_attention,
    CausalNetwork: whole_attention,
    EmbeddedDescent: embedded_descent,
    LinearAttention: linear_attention,
    LstmNetwork: lstm,
    MergedHeads: merged_heads,
    RecurrentLayer: recurrent_layer,
}
