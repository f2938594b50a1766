// Writes the declarations of the package: those that its entries reach, each with its docstring. The compiler writes a
// file for every module, and half of their text is internal.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';

/** The statement at the top level of a file that contains the node. */
function topLevel(node) {
  let statement = node;
  while (!ts.isSourceFile(statement.parent)) statement = statement.parent;
  return statement;
}

/** Declarations that the entries export, and all that these mention. */
function reachable(entries, checker) {
  const found = new Set();
  const add = (symbol) => {
    if (symbol === undefined) return;
    const isAlias = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
    const { declarations = [] } = isAlias ? checker.getAliasedSymbol(symbol) : symbol;
    for (const declaration of declarations) {
      const statement = topLevel(declaration);
      if (found.has(statement)) continue;
      found.add(statement);
      visit(statement);
    }
  };
  const visit = (node) => {
    if (ts.isIdentifier(node)) add(checker.getSymbolAtLocation(node));
    node.forEachChild(visit);
  };
  for (const entry of entries) {
    checker.getExportsOfModule(checker.getSymbolAtLocation(entry)).forEach(add);
  }
  return found;
}

/** A statement with its docstring, and without comments before that, which are about the file. */
function textOf(statement, file) {
  const comments = ts.getLeadingCommentRanges(file.text, statement.pos) ?? [];
  return file.text.slice(comments.at(-1)?.pos ?? statement.getStart(file), statement.end);
}

/** An import of the names that the statements mention; undefined when they mention none of them. */
function importOf(declaration, mentioned, file) {
  const { importClause, moduleSpecifier } = declaration;
  const names = importClause.namedBindings.elements.filter(({ name }) => mentioned.has(name.text));
  if (names.length === 0) return undefined;
  const type = importClause.phaseModifier === ts.SyntaxKind.TypeKeyword ? 'type ' : '';
  const list = names.map((name) => name.getText(file)).join(', ');
  return `import ${type}{ ${list} } from ${moduleSpecifier.getText(file)};`;
}

/** The reached part of a module; undefined when there is none. */
function partOf(file, found) {
  const kept = file.statements.filter((statement) => found.has(statement));
  if (kept.length === 0) return undefined;
  const mentioned = new Set();
  const visit = (node) => {
    if (ts.isIdentifier(node)) mentioned.add(node.text);
    node.forEachChild(visit);
  };
  kept.forEach(visit);
  const imports = file.statements
    .filter(ts.isImportDeclaration)
    .map((declaration) => importOf(declaration, mentioned, file));
  const lines = [...imports, ...kept.map((statement) => textOf(statement, file)), 'export {};'];
  return lines.filter((line) => line !== undefined).join('\n');
}

/**
 * Writes the declarations of the entries from one folder to another.
 *
 * @param names entries without their `.d.ts`
 */
export function writeDeclarations(from, to, names) {
  const paths = names.map((name) => join(from, `${name}.d.ts`));
  const options = { module: ts.ModuleKind.NodeNext, types: [], noLib: true };
  const program = ts.createProgram(paths, options);
  const entries = paths.map((path) => program.getSourceFile(path));
  const found = reachable(entries, program.getTypeChecker());
  for (const file of program.getSourceFiles()) {
    const text = entries.includes(file)
      ? file.text.trimEnd().replaceAll("'#runtime'", "'./runtime.js'")
      : partOf(file, found);
    const unknown = file.statements.find((statement) => {
      const { importClause } = statement;
      return ts.isImportDeclaration(statement) && !importClause?.namedBindings?.elements;
    });
    if (unknown !== undefined) throw new Error(`${file.fileName}: ${unknown.getText(file)}`);
    if (text === undefined) continue;
    const target = join(to, relative(from, file.fileName));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, `${text}\n`);
  }
}
