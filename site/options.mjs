// Option tables of functions, from the types and comments of the sources: typedoc only links to the type of `options`,
// and has no page for types that are not exported.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const src = fileURLToPath(new URL('../src', import.meta.url));

/** Markdown tables by exported function, for each function of the entry with a parameter `options`. */
export function optionTables(entry) {
  const { config } = ts.readConfigFile(join(src, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, src);
  const program = ts.createProgram([join(src, `${entry}.ts`)], options);
  const checker = program.getTypeChecker();
  const file = program.getSourceFile(join(src, `${entry}.ts`));
  const tables = new Map();
  for (const name of checker.getExportsOfModule(checker.getSymbolAtLocation(file))) {
    const symbol = name.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(name) : name;
    if (!(symbol.flags & ts.SymbolFlags.Function)) continue;
    // The last signature of an overloaded function is the general one.
    const signature = checker.getTypeOfSymbol(symbol).getCallSignatures().at(-1);
    const parameter = signature?.parameters.find((given) => given.name === 'options');
    if (parameter === undefined) continue;
    const rows = checker
      .getPropertiesOfType(checker.getNonNullableType(checker.getTypeOfSymbol(parameter)))
      .map((option) => rowOf(checker, option))
      .sort();
    if (rows.length > 0)
      tables.set(name.name, `| option | type | description |\n|---|---|---|\n${rows.join('\n')}\n`);
  }
  return tables;
}

function rowOf(checker, option) {
  const declared = option.declarations?.find(({ type }) => type !== undefined);
  // As it is declared: names of types rather than their members, but what a type parameter accepts.
  const given = declared && checker.getTypeFromTypeNode(declared.type);
  const parameter = [given, ...(given?.types ?? [])].find((type) => type?.isTypeParameter());
  const written =
    declared === undefined || parameter !== undefined
      ? checker.typeToString(parameter?.getConstraint() ?? checker.getTypeOfSymbol(option))
      : declared.type.getText();
  const short = written
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/^\| | \| undefined/g, '')
    .replace(/^\(([^|]*)\)$/, '$1');
  const comment = ts.displayPartsToString(option.getDocumentationComment(checker));
  const text = comment.replaceAll(/\{@link ([^}|]+)\}/g, '`$1`').replaceAll(/\s*\n\s*/g, ' ');
  return `| \`${option.name}\` | \`${escaped(short)}\` | ${escaped(text)} |`;
}

const escaped = (cell) => cell.replaceAll('|', '\\|');
