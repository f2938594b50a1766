/** Syntax trees and imports of source files. */
import ts from 'typescript';
import { textOf } from './source-tree.js';

/** One import or re-export of a module. */
export interface Import {
  /** The module as written. */
  readonly module: string;
  /** Names, when nothing but types is taken; otherwise null. */
  readonly types: readonly string[] | null;
}

const trees = new Map<string, ts.SourceFile>();

/** Parses a source file, once per process; in the result, comments and strings cannot be mistaken for code. */
export function parse(path: string): ts.SourceFile {
  const known = trees.get(path);
  if (known !== undefined) return known;
  const tree = ts.createSourceFile(path, textOf(path), ts.ScriptTarget.ES2022, true);
  trees.set(path, tree);
  return tree;
}

/** Calls the visitor for every node of the file, outermost first. */
export function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  node.forEachChild((child) => walk(child, visit));
}

const imports = new Map<string, readonly Import[]>();

/** Static and dynamic imports and re-exports of a source file, which is searched once per process. */
export function importsOf(path: string): readonly Import[] {
  const known = imports.get(path) ?? findImports(path);
  imports.set(path, known);
  return known;
}

function findImports(path: string): Import[] {
  const imports: Import[] = [];
  walk(parse(path), (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) {
      const { moduleSpecifier } = node;
      if (moduleSpecifier === undefined || !ts.isStringLiteral(moduleSpecifier)) return;
      imports.push({ module: moduleSpecifier.text, types: typeNamesOf(node) });
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [module] = node.arguments;
      const text = module !== undefined && ts.isStringLiteralLike(module) ? module.text : '';
      imports.push({ module: text, types: null });
    } else if (ts.isImportTypeNode(node)) {
      imports.push({ module: node.argument.getText().slice(1, -1), types: [] });
    }
  });
  return imports;
}

function typeNamesOf(node: ts.ImportDeclaration | ts.ExportDeclaration): string[] | null {
  const clause = ts.isImportDeclaration(node) ? node.importClause : node;
  const named = ts.isImportDeclaration(node) ? node.importClause?.namedBindings : node.exportClause;
  // `export type * from`
  if (ts.isExportDeclaration(node) && node.isTypeOnly && named === undefined) return [];
  const isNamespace = named !== undefined && ts.isNamespaceImport(named);
  if (isNamespace && ts.isImportDeclaration(node) && node.importClause?.isTypeOnly) return [];
  if (clause === undefined || named === undefined) return null;
  if (!ts.isNamedImports(named) && !ts.isNamedExports(named)) return null;
  const isTypeOnly = ts.isImportClause(clause)
    ? clause.phaseModifier === ts.SyntaxKind.TypeKeyword
    : clause.isTypeOnly;
  if (!isTypeOnly && !named.elements.every((element) => element.isTypeOnly)) return null;
  return named.elements.map((element) => (element.propertyName ?? element.name).text);
}
