"""The inputs that are checked in: the matrix, patches and their manifests, workloads, device
profiles, golden files.
"""
