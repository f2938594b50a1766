/**
 * The entries of the package have exactly the names that their declarations declare, and every class and interface that
 * programs may have to name can be imported from the same entry. `typedoc` does not see that: to it a type is public
 * when any entry exports it.
 */

import ts from 'typescript';
import { expect, test } from 'vitest';
import { root, textOf } from '../support/source-tree.js';

interface Target {
  readonly types?: string;
  readonly browser?: Target;
}

const { exports } = JSON.parse(textOf('package.json')) as { exports: Record<string, Target> };
const entries = Object.values(exports).flatMap(({ types, browser }) =>
  [types, browser?.types].filter((path) => path !== undefined).map((path) => path.slice(2)),
);

/** A page, and programs, can keep so many names in view. Those of `./hub` are the names of `@huggingface/hub`. */
const MAXIMUM_NAMES = 40;

const program = ts.createProgram(
  entries.map((path) => root + path),
  {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    lib: ['lib.esnext.d.ts'],
    types: ['node'],
  },
);
const checker = program.getTypeChecker();

/** The declaration behind an imported or exported name. */
function meant(symbol: ts.Symbol): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

/** The declarations in the package. */
function declarationsOf({ declarations = [] }: ts.Symbol): ts.Declaration[] {
  return declarations.filter((node) => node.getSourceFile().fileName.startsWith(`${root}lib/`));
}

/** The name that a node takes a type from. */
function typeNameIn(node: ts.Node): ts.Node | undefined {
  if (ts.isTypeReferenceNode(node)) return node.typeName;
  if (ts.isExpressionWithTypeArguments(node)) return node.expression;
  if (ts.isTypeQueryNode(node)) return node.exprName;
  return ts.isImportTypeNode(node) ? node.qualifier : undefined;
}

/** The symbol of the package that a node takes a type from. */
function typeIn(node: ts.Node): ts.Symbol | undefined {
  const name = typeNameIn(node);
  const symbol = name && checker.getSymbolAtLocation(name);
  if (symbol === undefined) return undefined;
  const found = meant(symbol);
  const isOwn = !(found.flags & ts.SymbolFlags.TypeParameter) && declarationsOf(found).length > 0;
  return isOwn ? found : undefined;
}

/**
 * Classes and interfaces of the package that programs may have to name: of what an exported name returns or holds. The
 * compiler writes out other types. Arguments are written as they are, and members of a base are those of the type
 * itself.
 */
function mentionedIn(node: ts.Node, seen: Set<ts.Node> = new Set()): ts.Symbol[] {
  if (isArgument(node) || seen.has(node)) return [];
  seen.add(node);
  const mentioned = (inner: ts.Node): ts.Symbol[] => mentionedIn(inner, seen);
  if (ts.isHeritageClause(node)) {
    const bases = node.types.flatMap((type) => typeIn(type) ?? []);
    return bases.flatMap(declarationsOf).flatMap(mentioned);
  }
  const inner: ts.Symbol[] = [];
  ts.forEachChild(node, (child) => void inner.push(...mentioned(child)));
  const found = typeIn(node);
  if (found === undefined) return inner;
  const isNamed = (found.flags & (ts.SymbolFlags.Class | ts.SymbolFlags.Interface)) !== 0;
  return [...inner, ...(isNamed ? [found] : declarationsOf(found).flatMap(mentioned))];
}

/** Whether a node is a parameter, or a type of options. */
function isArgument(node: ts.Node): boolean {
  if (ts.isParameter(node) || ts.isTypeParameterDeclaration(node)) return true;
  const isType = ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node);
  return isType && node.name.text.endsWith('Options');
}

test.each(entries)('%s exports the types that its names mention', (path) => {
  const file = program.getSourceFile(root + path) as ts.SourceFile;
  const module = checker.getSymbolAtLocation(file) as ts.Symbol;
  const exported = checker.getExportsOfModule(module).map(meant);
  expect(exported.length).toBeGreaterThan(/hub/.test(path) ? 25 : 50);
  const missing = exported.flatMap((symbol) =>
    declarationsOf(symbol)
      .flatMap((declaration) => mentionedIn(declaration))
      .filter((mentioned) => !exported.includes(mentioned))
      .map((mentioned) => `${mentioned.name}, in ${symbol.name}`),
  );
  expect([...new Set(missing)]).toEqual([]);
});

/** Names that an entry exports when it runs. */
async function namesOf(path: string): Promise<string[]> {
  return Object.keys((await import(root + path.replace(/\.d\.ts$/, '.js'))) as object).toSorted();
}

test.each(entries)(
  '%s declares the names that are there at run time, and no others',
  async (path) => {
    const module = checker.getSymbolAtLocation(program.getSourceFile(root + path) as ts.SourceFile);
    const values = checker
      .getExportsOfModule(module as ts.Symbol)
      .filter((symbol) => meant(symbol).flags & ts.SymbolFlags.Value && !isTypeOnly(symbol));
    expect(values.length).toBeGreaterThan(5);
    expect(await namesOf(path)).toEqual(values.map(({ name }) => name).toSorted());
  },
);

/** Whether a name is exported as a type although a value has it. */
function isTypeOnly({ declarations = [] }: ts.Symbol): boolean {
  return declarations.some(ts.isTypeOnlyImportOrExportDeclaration);
}

test(`all entries but those for looking at tensors have together at most ${MAXIMUM_NAMES} names at run time`, async () => {
  const others = entries.filter((path) => !/inspect|hub/.test(path));
  const names = await Promise.all(others.map(namesOf));
  expect(new Set(names.flat()).size).toBeLessThanOrEqual(MAXIMUM_NAMES);
});
