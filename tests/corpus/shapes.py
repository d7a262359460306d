"""What pydantic makes of nested types: `python shapes.py > shapes.json` with the Python SDK of tests/tools/python/mcp2.txt."""

import json
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union

import anyio
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel, Field

server = MCPServer("shapes")


class Kind(Enum):
    small = "small"
    large = "large"


class Leaf(BaseModel):
    label: str = Field(description="What it says", max_length=64)
    title: Optional[str] = None
    weight: float = Field(default=1.0, gt=0, le=10)


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


@server.tool()
def grid(rows: list[list[Leaf]], kind: Kind = Kind.small) -> str:
    """A list of lists of nested structs."""
    return ""


@server.tool()
def plant(tree: Tree, depth: int | None = None) -> str:
    """A tree within itself."""
    return ""


@server.tool()
def keep(pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")], since: str | int = 0) -> str:
    """A union that a property decides."""
    return ""


@server.tool()
def store(key: str, value: Any, labels: dict[str, int] = {}, place: tuple[float, float] = (0, 0)) -> str:
    """Values without a shape."""
    return ""


async def main() -> None:
    tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in await server.list_tools()]
    print('{\n  "from": "PyPI mcp 2.3.0, tests/corpus/shapes.py",\n  "tools": [')
    print(",\n".join("    " + json.dumps(tool) for tool in tools))
    print("  ]\n}")


anyio.run(main)
