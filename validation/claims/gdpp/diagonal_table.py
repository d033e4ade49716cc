"""Diagonal linear transformers with random noise levels: the published table.

Diagonal linear transformers trained by least squares on Gram matrices are, on fresh contexts,
at or below the published losses within the standard errors of both.

Source: {vladymyrov2024}, Table 1 and Figures 1 and 5.
"""

from iclimit.validation.claims.gdpp.tables import DIAG, table_claim

claim = table_claim(DIAG, __doc__)
