"""Diagonal linear transformers with random noise levels: the published table.

Diagonal linear transformers trained by least squares on Gram matrices are, on fresh contexts,
at or below the published losses within the standard errors of both.  Some random starts of two
layers and more end in other minima; the best of all starts is compared, and notes count the
others.

Source: {vladymyrov2024}, Table 1 and Figures 1 and 5.
"""

from iclimit.validation.claims.gdpp.tables import DIAG, table_claim

claim = table_claim(DIAG, __doc__)
