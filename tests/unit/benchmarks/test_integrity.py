"""An installed torch: what was added, taken away or rewritten is told; what was only touched is
not.
"""

import base64
import hashlib
import os

import pytest

from benchmarks.corpus.integrity import altered, stats, unlike_record


@pytest.fixture
def home(tmp_path):
    """Two files of torch with their digests in RECORD, and compiled Python without."""
    texts = {"torch/__init__.py": "a = 1\n", "torch/lib/libtorch.so": "binary"}
    record = []
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digest = (
            base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        )
        record.append(f"{name},sha256={digest},{len(text)}")
    (tmp_path / "torch" / "old.pyc").write_text("compiled")
    told = tmp_path / "torch-2.11.0.dist-info" / "RECORD"
    told.parent.mkdir()
    told.write_text("\n".join([*record, "torch-2.11.0.dist-info/RECORD,,"]))
    (tmp_path / "numpy").mkdir()
    return tmp_path


def test_what_nobody_wrote_is_as_it_was(home):
    before = stats(home)
    assert (altered(home, before), unlike_record(home)) == ([], [])
    assert sorted(before) == [
        "torch-2.11.0.dist-info/RECORD",
        "torch/__init__.py",
        "torch/lib/libtorch.so",
    ]


def test_a_file_that_was_only_touched_or_compiled_is_as_it_was(home):
    before = stats(home)
    os.utime(home / "torch" / "__init__.py", ns=(1, 1))
    (home / "torch" / "old.pyc").write_text("compiled anew")
    (home / "numpy" / "new.py").write_text("")
    assert altered(home, before) == []


def test_what_was_rewritten_added_or_taken_away_is_reported(home):
    before = stats(home)
    (home / "torch" / "__init__.py").write_text("a = 2\n")
    os.utime(home / "torch" / "__init__.py", ns=(1, 1))
    (home / "torch" / "new.py").write_text("")
    (home / "torch" / "lib" / "libtorch.so").unlink()
    told = [
        "torch/__init__.py has other bytes",
        "torch/lib/libtorch.so is gone",
        "torch/new.py is new",
    ]
    assert altered(home, before) == told


def test_bytes_that_were_changed_behind_size_and_time_are_found_by_reading_all(home):
    path, before = home / "torch" / "__init__.py", stats(home)
    time = path.stat().st_mtime_ns
    path.write_text("a = 2\n")
    os.utime(path, ns=(time, time))
    assert (altered(home, before), unlike_record(home)) == (
        [],
        ["torch/__init__.py has other bytes"],
    )
