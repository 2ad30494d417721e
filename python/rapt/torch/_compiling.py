"""What torch.compile traces, as functions that can be called while it does: those of the graph's tensors get others of their shape."""

import types

import torch

_NAMES = {"apply", "no_grad", "enable_grad", "set_grad_enabled", "inference_mode"}


def _stand_in(tensor):
    shape = [int(n) for n in tensor.shape]
    return torch.ones((), dtype=tensor.dtype, device=tensor.device).expand(shape)


def value_of(variable):
    """What one of Dynamo's variables stands for."""
    from torch._dynamo import variables
    from torch._dynamo.symbolic_convert import InstructionTranslator

    variable = variable.realize() if hasattr(variable, "realize") else variable
    if isinstance(variable, variables.TensorVariable):
        return _stand_in(variable.proxy.node.meta["example_value"])
    if isinstance(variable, variables.SymNodeVariable):
        return variable.sym_num.node.hint
    if isinstance(variable, variables.NestedUserFunctionVariable):
        cells = variable.closure.items if variable.closure else ()
        load = InstructionTranslator.current_tx().output.side_effects.load_cell
        closure = tuple(types.CellType(value_of(load(cell))) for cell in cells)
        defaults = None if variable.defaults is None else tuple(value_of(variable.defaults))
        return types.FunctionType(variable.get_code(), variable.f_globals, "mod", defaults, closure)
    if isinstance(variable, (variables.ListVariable, variables.TupleVariable)):
        items = [value_of(item) for item in variable.items]
        return tuple(items) if isinstance(variable, variables.TupleVariable) else items
    if isinstance(variable, variables.UserDefinedObjectVariable):
        return variable.value
    if hasattr(variable, "fn_cls"):  # an autograd.Function
        return variable.fn_cls
    if isinstance(variable, variables.ConstDictVariable):
        return {value_of(getattr(key, "vt", key)): value_of(item) for key, item in variable.items.items()}
    return variable.as_python_constant()


def may_have_gradients(variable):
    """Whether the code of a function, or of those that it captures, names what makes gradients that are no derivatives."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    variable = variable.realize() if hasattr(variable, "realize") else variable
    if not hasattr(variable, "get_code"):
        return False
    known, pending, names = variable.get_globals(), [variable.get_code()], set()
    while pending:
        code = pending.pop()
        names.update(code.co_names)
        pending += [x for x in code.co_consts if isinstance(x, types.CodeType)]
    is_function = lambda x: isinstance(x, type) and issubclass(x, torch.autograd.Function)
    if names & _NAMES or any(is_function(getattr(known.get(name), "__self__", None)) for name in names):
        return True
    closure = getattr(variable, "closure", None)
    load = InstructionTranslator.current_tx().output.side_effects.load_cell
    return any(may_have_gradients(load(cell)) for cell in (closure.items if closure else ()))
