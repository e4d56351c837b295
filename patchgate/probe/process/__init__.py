"""The needs of every process of the probe: its sandbox, its clock and its reply. Imports no
torch.
"""
