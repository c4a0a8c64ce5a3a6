"""The verbs an operator types, gathered into one flat namespace. Modules are nouns, tasks are verbs."""

from invoke import Collection

from . import edge, installs, plans, servers, waiting

edge.refuse_bad_start()
namespace = Collection()
for _module in (servers, waiting, installs, plans):
    for _task in Collection.from_module(_module).tasks.values():
        namespace.add_task(_task)
