"""Read the torch releases that a project requires, from the first kind of file that says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchgate.inputs.project import find_project
from patchgate.inputs.torch_range import (
    default_releases,
    requirements_for,
    source_of_releases,
    torch_range,
)

KNOWN = ["2.8.0", "2.9.0", "2.9.1", "2.10.0", "2.14.1"]


@pytest.mark.parametrize(
    ("files", "releases"),
    [
        ({"pyproject.toml": '[project]\ndependencies = ["numpy", "torch>=2.9,<2.10"]\n'}, ["2.9.0", "2.9.1"]),
        ({"pyproject.toml": '[project]\ndependencies = ["torch"]\n', "requirements.txt": "torch==2.8.0"}, ["2.8.0"]),
        ({"pyproject.toml": '[project]\ndependencies = ["torch"]\n', "requirements.txt": "torch"}, KNOWN),
        ({"pyproject.toml": '[project]\ndependencies = ["torch"]\n', "dev-requirements.txt": "torch==2.8.0"}, KNOWN),
        (
            {"pyproject.toml": '[project]\ndependencies = ["torch>=2.9"]\n', "requirements.txt": "torch==2.8.0"},
            KNOWN[1:],
        ),
        ({"pyproject.toml": '[project]\ndependencies = ["torchvision==0.1", "torch-geometric<2"]\n'}, KNOWN),
        ({"pyproject.toml": '[tool.patchgate]\ntorch_range = "<2.9"\n[project]\ndependencies = []\n'}, ["2.8.0"]),
        ({"pyproject.toml": "not [ TOML", "requirements.txt": "torch<2.9"}, ["2.8.0"]),
        ({"pyproject.toml": '[project]\ndependencies = ["torch"]\n'
          '[tool.uv]\noverride-dependencies = ["torch==2.9.0", "x>=1"]\n'}, ["2.9.0"]),
        ({"pyproject.toml": '[project]\ndependencies = ["torch"]\n'
          '[tool.uv]\nconstraint-dependencies = ["torch>=2.9", "torchvision<1"]\n'}, KNOWN[1:]),
        ({"pyproject.toml": '[tool.poetry.dependencies]\ntorch = "^2.9"\n'}, KNOWN[1:]),
        ({"pyproject.toml": '[tool.poetry.dependencies]\ntorch = "~2.9.1"\n'}, ["2.9.0", "2.9.1"]),
        ({"pyproject.toml": '[tool.poetry.dependencies]\ntorch = {version = "2.9.0", source = "cpu"}\n'}, ["2.9.0"]),
        ({"pyproject.toml": '[tool.poetry.dependencies]\ntorch = "*"\n[project.optional-dependencies]\n'
          'a = ["torch<2.9"]\n'}, KNOWN),
        ({"pyproject.toml": '[tool.poetry.group.dev.dependencies]\ntorch = [{version = ">=2.9,<2.10"},'
          ' {version = "2.8.0 || ==2.10.0"}]\n'}, ["2.8.0", "2.9.0", "2.9.1", "2.10.0"]),
        ({"pyproject.toml": '[tool.poetry]\ndependencies = 3\ngroup = 2\n'}, KNOWN),
        ({"setup.cfg": "[options]\ninstall_requires =\n  numpy\n  torch>=2.10\n"}, ["2.10.0", "2.14.1"]),
        ({"setup.py": "from setuptools import setup\nX = 'torch'\nsetup(install_requires=['torch<=2.8'])"}, ["2.8.0"]),
        ({"requirements/a.txt": "torch==2.9.0+cu126 --hash=x  # pinned", "requirements/b.txt": "torch<2.9"},
         ["2.8.0", "2.9.0"]),
        ({"pyproject.toml": '[project.optional-dependencies]\ngpu = ["torch>=2.10"]\n'}, ["2.10.0", "2.14.1"]),
        ({"pyproject.toml": '[build-system]\nrequires = ["torch == 2.14.0"]\n'}, ["2.14.1"]),
        ({"requirements.txt": "torch@https://x.org/whl/torch-2.9.1%2Bcpu-cp312-cp312-linux_x86_64.whl"}, ["2.9.1"]),
        ({"requirements.txt": "torch @ git+https://x.org/torch"}, KNOWN),
        ({"packages/core/pyproject.toml": '[project]\ndependencies = ["torch~=2.9.0"]\n'}, ["2.9.0", "2.9.1"]),
        ({"examples/pyproject.toml": '[project]\ndependencies = ["torch~=2.9.0"]\n'}, KNOWN),
        ({"mine-1.0.dist-info/METADATA": "Name: mine\nRequires-Dist: torch<2.9\n\ntext"}, ["2.8.0"]),
        ({"PKG-INFO": "Name: mine\nRequires-Dist: torch>=9\n"}, []),
        ({"PKG-INFO": "Name: mine\nRequires-Dist: torch (<2.9,>=2) ; extra == 'gpu'\n"}, ["2.8.0"]),
        ({"requirements.txt": "torch @ https://example.org/torch.whl\ntorch<2.9"}, KNOWN),
        ({"requirements.txt": "torch of the newest kind\ntorch<2.9"}, ["2.8.0"]),
        ({"requirements.txt": "torch>=2.10; sys_platform != 'darwin'\ntorch<2.9; platform_machine == 'x86_64'"
          " and sys_platform == 'darwin'"}, ["2.10.0", "2.14.1"]),
        ({"requirements.txt": "torch>=2.10; sys_platform != 'darwin'\ntorch<2.9; platform_machine == 'arm64'"},
         ["2.8.0", "2.10.0", "2.14.1"]),
        ({"setup.py": "import torch\nif parse(torch.__version__) < parse('2.10'):\n    raise RuntimeError('old')\n"},
         ["2.10.0", "2.14.1"]),
        ({"setup.py": "import torch\nif parse(torch.__version__) < parse('2.10'):\n    print('old')\n"}, KNOWN),
        ({"cuda-requirements.txt": "torch==2.8.0\n"}, ["2.8.0"]),
        ({"cuda-needs.txt": "torch==2.8.0\n"}, KNOWN),
        ({"environment.yml": "dependencies:\n  - python=3.11\n  - conda-forge::pytorch=2.9\n"}, ["2.9.0", "2.9.1"]),
        ({"environment.yml": "dependencies:\n  - pip:\n    - torch>=2.10\n"}, ["2.10.0", "2.14.1"]),
        ({"environment.yml": "dependencies:\n  - pytorch-lightning=2.9\n"}, KNOWN),
        ({"pyproject.toml": '[tool.poetry.dependencies]\ntorch = "~2.9"\n'}, ["2.9.0", "2.9.1"]),
        ({"pyproject.toml": '[tool.poetry.dependencies]\ntorch = {version = "^2.9.1"}\n'},
         ["2.9.1", "2.10.0", "2.14.1"]),
        ({"pyproject.toml": '[tool.poetry.dependencies]\ntorch = "*"\n', "README.md": "torch==2.8.0"}, KNOWN),
        ({"pyproject.toml": '[tool.other]\ntorch = "<2.9"\n'}, KNOWN),
        ({"README.md": "Install PyTorch 2.10 or later.\n"}, ["2.10.0", "2.14.1"]),
        ({"README.md": "pip install torch==2.8.0 --index-url x\n"}, ["2.8.0"]),
        ({"README.md": "It was fast on PyTorch 2.8 already.\n"}, KNOWN),
        ({"README.md": "pip install torch==2.8.0\n", "requirements.txt": "torch>=2.9\n"}, KNOWN[1:]),
        ({"requirements.txt": "torch==2.9.0.dev20260317\n"}, ["2.9.0", "2.9.1"]),
        ({"requirements.txt": "torch==2.9.0.dev20260317+cu130\ntorch==2.8.0\n"}, ["2.8.0", "2.9.0", "2.9.1"]),
        ({"requirements.txt": "torch==2.9.0rc3\n"}, ["2.9.0", "2.9.1"]),
        ({"requirements.txt": "torch==2.16.0.dev20260317\n"}, []),
        ({"requirements.txt": "torch>=2.9.0.dev20260317\n"}, KNOWN[1:]),
        ({"pyproject.toml": '[project]\ndependencies = ["torch"]\n',
          "README.md": "## Requirements\n- [PyTorch](https://x.org) 2.10 or later\n"}, ["2.10.0", "2.14.1"]),
        ({"pyproject.toml": '[project]\ndependencies = ["torch"]\n', "README.md": "- **PyTorch** >= 2.10\n"},
         ["2.10.0", "2.14.1"]),
        ({"pyproject.toml": '[project]\ndependencies = ["torch"]\n', "README.md": "pip install torch==2.8.0\n"},
         KNOWN),
        ({"README.md": "such as pytorch 2.10+cu121\n"}, KNOWN),
        ({"requirements/requirements-readthedocs.txt": "torch>=2.10\n", "requirements/requirements.txt": "torch>=2.9"},
         KNOWN[1:]),
        ({"requirements/docs.txt": "torch>=2.10\n"}, KNOWN),
        ({}, KNOWN),
    ],
)  # fmt: skip
def test_the_releases_that_a_project_supports(
    tmp_path: Path, files: dict[str, str], releases: list[str]
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "mine" / "deep").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert torch_range(tmp_path / "mine" / "deep").of(KNOWN) == releases
    (tmp_path / "mine" / "patch.py").write_text("")
    assert torch_range(tmp_path / "mine" / "patch.py").of(KNOWN) == releases


@pytest.mark.parametrize(
    ("files", "required"),
    [
        ({}, "acme_gpu"),
        ({"requirements.txt": "acme-gpu>=2\n"}, "acme-gpu>=2"),
        ({"requirements.txt": "Acme.GPU<3 ; python_version > '3'\n"}, "Acme.GPU<3"),
        ({"requirements.txt": "acme-gpu<3 ; python_version < '3'\n"}, "acme_gpu"),
        ({"requirements.txt": "acme-gpu-cpu\nacme\n"}, "acme-gpu-cpu"),
        ({"requirements.txt": "acme-gpu-cpu\nacme-gpu\n"}, "acme-gpu"),
        ({"requirements.txt": "acme\nacme-gpuless\n"}, "acme_gpu"),
        ({"pyproject.toml": '[project]\noptional-dependencies.a = ["acme-gpu==1"]\n'}, "acme-gpu==1"),
        ({"setup.py": "setup(install_requires=['acme_gpu~=1.0', 'not one'])"}, "acme_gpu~=1.0"),
        ({"../requirements.txt": "acme-gpu>=2\n"}, "acme_gpu"),
    ],
)  # fmt: skip
def test_a_package_is_called_as_the_project_calls_it(
    tmp_path: Path, files: dict[str, str], required: str
) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    for name, text in files.items():
        (project / name).write_text(text)
    assert requirements_for(["acme_gpu"], project / "mine" / "patch.py") == [required]


def test_the_nearest_project_decides(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "requirements.txt").write_text("torch<2.9\n")
    assert str(torch_range(tmp_path / "inner")).startswith("torch<2.9 in ")
    (tmp_path / "inner" / "requirements.txt").write_text("torch>=2.10\n")
    assert torch_range(tmp_path / "inner").specifiers == (">=2.10",)


@pytest.mark.parametrize(
    ("files", "releases"),
    [
        ({"requirements.txt": "triton==3.5.0\n"}, ["2.9.0"]),
        ({"pyproject.toml": '[project]\ndependencies = ["torch"]\noptional-dependencies.a = ["triton>3.4"]\n'},
         ["2.9.0", "2.9.1", "2.10.0", "2.14.1"]),
        ({"requirements.txt": "torch>=2.10\ntriton==3.5.0\n"}, ["2.10.0", "2.14.1"]),
        ({"requirements.txt": "triton==9.0\n"}, KNOWN),
        ({"requirements.txt": "triton\n"}, KNOWN),
    ],
)  # fmt: skip
def test_a_project_that_pins_triton_alone(
    tmp_path: Path, files: dict[str, str], releases: list[str]
) -> None:
    """A release of torch brings its own triton: another pin shuts it out, unless no release has
    that one.
    """
    tritons = {
        "2.8.0": "3.4.0",
        "2.9.0": "3.5.0",
        "2.9.1": "3.5.1",
        "2.10.0": "3.6.0",
        "2.14.1": "3.7.1",
    }
    (tmp_path / ".git").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert torch_range(tmp_path).of(KNOWN, tritons) == releases


@pytest.mark.parametrize(
    ("stated", "releases"),
    [
        ("", ("2.11.0", "2.12.1")),
        ("torch>=2.4", ("2.11.0", "2.12.1")),
        ("torch<2.12", ("2.11.0",)),
        ("torch==2.14.0", ("2.14.1",)),
        ("torch==2.9.1", ("2.11.0", "2.12.1")),
    ],
)
def test_a_project_is_judged_on_releases_that_it_supports(folder, stated, releases):
    (folder / "requirements.txt").write_text(f"{stated}\n")
    (folder / ".git").mkdir()
    assert default_releases(find_project(folder)) == releases
    assert default_releases(replace(find_project(folder), releases=("2.13.0",))) == ("2.13.0",)


def test_the_source_of_releases_names_the_rows_that_are_left_out(tmp_path: Path) -> None:
    table = '[project]\ndependencies = ["torch>=2.11,<2.14"]\n'
    (tmp_path / "pyproject.toml").write_text(table)
    assert source_of_releases(find_project(tmp_path)).endswith("; 2.13.0 with --torch")
    (tmp_path / "pyproject.toml").write_text(table.replace("2.14", "2.12"))
    assert "with --torch" not in source_of_releases(find_project(tmp_path))
