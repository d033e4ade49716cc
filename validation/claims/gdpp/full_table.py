"""Full linear transformers with random noise levels: the published table.

Linear transformers with full weights, trained by least squares on Gram matrices within the
axial ones, are, on fresh contexts, at or below the published losses within the standard errors of
both.  Some random starts of two layers and more end in other minima; the best of all starts is
compared, and notes count the others.

Source: {vladymyrov2024}, Table 1 and Figures 1 and 5.
"""

from iclimit.validation.claims.gdpp.tables import DENSE, table_claim

claim = table_claim(
    DENSE,
    __doc__,
    "Trained within the axial weights, a part of the full ones: all P and Q that commute with the "
    "orthogonal maps of the inputs that keep the first axis, 10 parameters of a layer instead of "
    "242.  What they reach full weights reach.  With all weights free, in ten times the CPU time, "
    "descents from three layers on end near axial ones, with the first axis in a direction of "
    "their own, in which the layers hold what they learnt of the labels.",
)
