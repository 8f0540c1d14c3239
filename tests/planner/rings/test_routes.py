"""Links, routes and loads, held against `tracesim.rings`, which walks node by node."""

from hypothesis import given
from hypothesis import strategies as st

from cpsat_pim.planner.rings import Instance, Mesh
from cpsat_pim.planner.rings.routes import hops, link_ends, link_loads, route
from tests.planner.rings.cases import instances
from tracesim.rings import mesh_links, ring_loads, walk

meshes = st.builds(lambda r, c: Mesh(rows=r, cols=c), st.integers(1, 6), st.integers(2, 6))


@given(meshes)
def test_links_are_those_of_the_mesh(mesh: Mesh) -> None:
    """Each directed link has one number."""
    ends = [tuple(pair) for pair in link_ends(mesh).tolist()]
    assert sorted(ends) == sorted(mesh_links(mesh.rows, mesh.cols))
    assert len(ends) == mesh.links


@given(meshes, st.data())
def test_a_route_walks_along_its_row_first(mesh: Mesh, data: st.DataObject) -> None:
    """Link for link the walk, and as many links as hops."""
    nodes = st.integers(0, mesh.nodes - 1)
    a, b = data.draw(nodes), data.draw(nodes)
    ends = link_ends(mesh).tolist()
    assert [tuple(ends[link]) for link in route(mesh, a, b)] == list(walk(mesh.cols, a, b))
    assert hops(mesh, a, b) == len(route(mesh, a, b))


@given(instances(longest_side=6))
def test_loads_are_what_is_walked(instance: Instance) -> None:
    """Each link of the mesh carries as many chunks as walks use it."""
    loads = link_loads(instance.mesh, instance.sets).tolist()
    counted = ring_loads(instance.mesh.cols, instance.sets)
    ends = link_ends(instance.mesh).tolist()
    assert loads == [counted[a, b] for a, b in ends]
