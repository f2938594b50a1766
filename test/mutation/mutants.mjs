/** Small faults of a source file, and the file with all of them in it, each behind a switch. */
import ts from 'typescript';

const SWAPPED = new Map([
  ['===', '!=='],
  ['!==', '==='],
  ['<', '<='],
  ['<=', '<'],
  ['>', '>='],
  ['>=', '>'],
  ['+', '-'],
  ['-', '+'],
  ['*', '/'],
  ['/', '*'],
  ['%', '*'],
  ['**', '*'],
  ['&&', '||'],
  ['||', '&&'],
  ['??', '&&'],
  ['<<', '>>'],
  ['>>', '<<'],
  ['>>>', '<<'],
  ['&', '|'],
  ['|', '&'],
  ['^', '&'],
  ['+=', '-='],
  ['-=', '+='],
  ['??=', '='],
]);

const STEPS = new Map([
  [ts.SyntaxKind.PlusPlusToken, '--'],
  [ts.SyntaxKind.MinusMinusToken, '++'],
]);

/** Texts are put together, not added up. */
function isText(node) {
  return ts.isStringLiteralLike(node) || ts.isTemplateExpression(node);
}

/** Pairs of a node and the text that may stand in its place. */
function* faultsOf(node) {
  if (ts.isBinaryExpression(node)) {
    const { left, operatorToken, right } = node;
    const swapped = SWAPPED.get(operatorToken.getText());
    const isJoined = operatorToken.getText().startsWith('+') && (isText(left) || isText(right));
    if (swapped !== undefined && !isJoined) {
      // Brackets, since the other operator may bind more loosely.
      yield [node, `(${left.getText()}) ${swapped} (${right.getText()})`];
    }
  } else if (ts.isPrefixUnaryExpression(node)) {
    const step = STEPS.get(node.operator) ?? '';
    yield [node, `${step}(${node.operand.getText()})`];
  } else if (ts.isPostfixUnaryExpression(node)) {
    yield [node, `${node.operand.getText()}${STEPS.get(node.operator)}`];
  } else if (ts.isIfStatement(node)) {
    yield [node.expression, 'true'];
    yield [node.expression, 'false'];
  } else if (ts.isWhileStatement(node)) {
    yield [node.expression, 'false'];
  } else if (ts.isForStatement(node) && node.condition !== undefined) {
    yield [node.condition, 'false'];
  } else if (ts.isConditionalExpression(node)) {
    yield [node.condition, 'true'];
    yield [node.condition, 'false'];
  } else if (ts.isNumericLiteral(node)) {
    yield [node, `(${node.getText()} + 1)`];
  } else if (ts.isBigIntLiteral(node)) {
    yield [node, `(${node.getText()} + 1n)`];
  } else if (node.kind === ts.SyntaxKind.TrueKeyword) {
    yield [node, 'false'];
  } else if (node.kind === ts.SyntaxKind.FalseKeyword) {
    yield [node, 'true'];
  } else if (
    ts.isExpressionStatement(node) ||
    ts.isThrowStatement(node) ||
    ts.isBreakOrContinueStatement(node)
  ) {
    // A constructor without its `super` is no program.
    if (!node.getText().startsWith('super(')) yield [node, ''];
  }
}

/** Where nothing runs: types, imports, names of properties. */
function isSkipped(node) {
  return (
    ts.isTypeNode(node) ||
    ts.isImportDeclaration(node) ||
    ts.isExportDeclaration(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isComputedPropertyName(node) ||
    (ts.isNumericLiteral(node) && node.parent.name === node)
  );
}

/** The names of the declarations around a node: `Reader.text`. */
function placeOf(node) {
  const names = [];
  for (let outer = node.parent; outer !== undefined; outer = outer.parent) {
    const isNamed =
      ts.isFunctionLike(outer) ||
      ts.isClassLike(outer) ||
      ts.isPropertyDeclaration(outer) ||
      (ts.isVariableDeclaration(outer) && !ts.isBlock(outer.parent.parent.parent));
    if (isNamed)
      names.unshift(
        outer.name?.getText() ?? (outer.kind === ts.SyntaxKind.Constructor ? 'constructor' : ''),
      );
  }
  return names.filter((name) => name !== '').join('.');
}

/** A constant is told from others of its line by what it is a part of. */
function describe(node, after) {
  const isConstant = ts.isLiteralExpression(node) || ts.isToken(node);
  const whole = isConstant && ts.isExpression(node.parent) ? node.parent : node;
  const text = whole.getText();
  const begin = node.getStart() - whole.getStart();
  const end = begin + node.getText().length;
  const changed = oneLine(text.slice(0, begin) + after + text.slice(end));
  return `${oneLine(text)} → ${changed || 'nothing'}`;
}

const oneLine = (text) => text.replace(/\s+/g, ' ').trim();

/** All faults of a file, from its start to its end. `start` and `end` delimit the node that the fault replaces. */
export function mutantsOf(path, text) {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const lines = text.split('\n');
  const mutants = [];
  const visit = (node) => {
    if (isSkipped(node)) return;
    for (const [changed, after] of faultsOf(node)) {
      const [start, end] = [changed.getStart(), changed.getEnd()];
      const { line } = source.getLineAndCharacterOfPosition(start);
      const fault = describe(changed, after);
      mutants.push({
        path,
        line: line + 1,
        lineText: lines[line].trim(),
        place: placeOf(changed),
        start,
        end,
        after,
        fault,
      });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return mutants;
}

/**
 * The file with the mutants in it, each behind its switch: `__faults.at(id)`, true when that fault is switched on.
 * The mutants are of this file, and have an `id`.
 */
export function withSwitches(text, mutants) {
  const nodes = new Map();
  for (const mutant of mutants) {
    const key = `${mutant.start}-${mutant.end}`;
    nodes.set(key, [...(nodes.get(key) ?? []), mutant]);
  }
  // The outer node before the inner ones.
  const order = [...nodes.values()].sort(([a], [b]) => a.start - b.start || b.end - a.end);
  let next = 0;
  const render = (start, end) => {
    let rendered = '';
    let at = start;
    while (next < order.length && order[next][0].start < end) {
      const faults = order[next++];
      const [{ start: nodeStart, end: nodeEnd }] = faults;
      const inner = render(nodeStart, nodeEnd);
      rendered += text.slice(at, nodeStart) + switched(faults, inner);
      at = nodeEnd;
    }
    return rendered + text.slice(at, end);
  };
  return render(0, text.length);
}

function switched(faults, inner) {
  const removed = faults.find(({ after }) => after === '');
  if (removed !== undefined) return `{ if (!__faults.at(${removed.id})) ${inner} }`;
  return `(${faults.map(({ id, after }) => `__faults.at(${id}) ? ${after} : `).join('')}${inner})`;
}

/** Whether a fault is known to be the same program: by names and texts, since files may move and lines shift. */
export function isKnown(equivalents, { place, lineText, fault }) {
  return equivalents.some(
    (known) => known.in === place && known.line === lineText && known.faults.includes(fault),
  );
}
