"""The probe: the only code of patchgate that imports torch.

It runs inside each torch environment and needs only torch and the standard library. It knows no
golden values, claims or verdicts. Imports go in one direction: process, simulate, patch, compile,
numerics and timing, serve.
"""
