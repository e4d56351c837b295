"""The probe: the only code of patchgate that imports torch.

Runs inside each torch environment and needs nothing but torch and the
standard library: request JSON in, observation JSON out. Knows no golden
values, no claims and no verdicts.
"""
