"""An out-of-tree device in one file: PrivateUse1 called `toy`, with its own Inductor backend and device interface.

What an accelerator project ships beside torch, as small as it can be. Its code is what Inductor's C++ backend
generates; a real project brings its own scheduling and wrapper here.
"""

import torch
from torch._dynamo.device_interface import CpuInterface, register_interface_for_device
from torch._inductor.codegen.common import register_backend_for_device, register_device_op_overrides
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.cpu_device_op_overrides import CpuDeviceOpOverrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch.utils import backend_registration


class ToyInterface(CpuInterface):
    """What Dynamo asks of the device."""

    @staticmethod
    def device_count():
        return 1


class ToyWrapper(PythonWrapperCodegen):
    """The generated module says whose it is."""

    @staticmethod
    def create(*args, **kwargs):
        return ToyWrapper()

    def write_header(self):
        super().write_header()
        self.header.writeline("# generated for toy")

    def _generate_kernel_call_helper(self, *args, device=None, **kwargs):
        super()._generate_kernel_call_helper(*args, device=torch.device("cpu"), **kwargs)


def register():
    # Names it and gives it a module, hooks and a guard, as a project's C++ extension would.
    backend_registration._setup_privateuseone_for_python_backend("toy")
    register_interface_for_device("toy", ToyInterface)
    register_device_op_overrides("toy", CpuDeviceOpOverrides())
    register_backend_for_device("toy", CppScheduling, ToyWrapper)
