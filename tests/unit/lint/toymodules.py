"""Three modules with one of everything that the index tells apart."""

IR = '''
import abc
from typing import TYPE_CHECKING
from torch._inductor.tools import helper, other as alias
if TYPE_CHECKING:
    from torch._inductor.graph import GraphLowering

limit: int = 3
first, second = 1, 2

def plain(a, /, b, c=(1, "x, y"), *args, d, e=lambda x, y: {"k": x}, **rest) -> dict[str, int]:
    """Doc."""
    helper(a, b, d=1, *args)

async def later(*, x=None): ...

class Root(abc.ABC):
    kind: str
    shared = 1
    def __init__(self, size):
        self.size: int = size
        self.left, self.right = size
    @property
    def half(self) -> int: return self.size
    @half.setter
    def half(self, value): ...
    @staticmethod
    def make(a): ...
    @classmethod
    def wrap(cls): return cls.make(1)
    class Inner:
        def deep(self): ...

class Forwarding(Root):
    def __getattr__(self, name): ...

class Error(ValueError): ...
'''
TOOLS = "def helper(*a, d): ...\ndef other(): from torch._inductor import late\n"
CONFIG = "depth = 3\nclass triton:\n    cudagraphs: bool = False\n"
MODULES = {
    "torch._inductor.ir": IR,
    "torch._inductor.tools": TOOLS,
    "torch._inductor.config": CONFIG,
}
