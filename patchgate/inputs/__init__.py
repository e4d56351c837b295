"""What is checked in: the matrix, patches with their manifests, workloads, device profiles, golden files."""
