/** Small faults of a source file, and the file with all of them in it, each enabled by a switch. */
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

/** Kinds of nodes that can be evaluated twice: they change nothing. Getters count as properties. */
const PURE = new Set([
  ts.SyntaxKind.Identifier,
  ts.SyntaxKind.PrivateIdentifier,
  ts.SyntaxKind.ThisKeyword,
  ts.SyntaxKind.SuperKeyword,
  ts.SyntaxKind.NullKeyword,
  ts.SyntaxKind.TrueKeyword,
  ts.SyntaxKind.FalseKeyword,
  ts.SyntaxKind.QuestionDotToken,
  ts.SyntaxKind.QuestionToken,
  ts.SyntaxKind.ColonToken,
  ts.SyntaxKind.PropertyAccessExpression,
  ts.SyntaxKind.ElementAccessExpression,
  ts.SyntaxKind.ParenthesizedExpression,
  ts.SyntaxKind.ConditionalExpression,
  ts.SyntaxKind.NonNullExpression,
  ts.SyntaxKind.TypeOfExpression,
  ts.SyntaxKind.TemplateExpression,
  ts.SyntaxKind.TemplateHead,
  ts.SyntaxKind.TemplateSpan,
  ts.SyntaxKind.TemplateMiddle,
  ts.SyntaxKind.TemplateTail,
]);

const CONSTANTS = new Set([ts.SyntaxKind.TrueKeyword, ts.SyntaxKind.FalseKeyword]);

function isPure(node) {
  if (ts.isBinaryExpression(node)) {
    const isAssignment = ts.isAssignmentOperator(node.operatorToken.kind);
    return !isAssignment && isPure(node.left) && isPure(node.right);
  }
  if (ts.isPrefixUnaryExpression(node)) return !STEPS.has(node.operator) && isPure(node.operand);
  if (ts.isAsExpression(node)) return isPure(node.expression);
  if (ts.isLiteralExpression(node)) return !ts.isRegularExpressionLiteral(node);
  if (!PURE.has(node.kind)) return false;
  let isEvery = true;
  ts.forEachChild(node, (child) => {
    isEvery &&= isPure(child);
  });
  return isEvery;
}

/**
 * How a run without the fault finds out that the fault changes a value: `truth` for a condition, which the fault makes
 * true or false; `value` for an expression without side effects. Undefined where only being reached can be recorded.
 */
function comparisonOf(node, after) {
  const isConstant = ts.isLiteralExpression(node) || CONSTANTS.has(node.kind);
  if (isConstant) return undefined;
  if (after === 'true' || after === 'false') return 'truth';
  return isPure(node) ? 'value' : undefined;
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
        comparison: comparisonOf(changed, after),
      });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return mutants;
}

/**
 * The file with the mutants in it, each behind its switch: `__faults.at(id)`, true when that fault is switched on.
 * The mutants are of this file, and have an `id`. With `isComparing`, switches of faults with a `comparison` record only
 * runs in which the fault would change a value.
 */
export function withSwitches(text, mutants, isComparing = false) {
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
      rendered += text.slice(at, nodeStart) + switched(faults, inner, isComparing);
      at = nodeEnd;
    }
    return rendered + text.slice(at, end);
  };
  return render(0, text.length);
}

function switched(faults, inner, isComparing) {
  const removed = faults.find(({ after }) => after === '');
  if (removed !== undefined) return `{ if (!__faults.at(${removed.id})) ${inner} }`;
  let [conditions, value] = ['', inner];
  for (const { id, after, comparison } of faults) {
    const isCompared = isComparing && comparison !== undefined;
    conditions += `__faults.${isCompared ? 'isActive' : 'at'}(${id}) ? ${after} : `;
    const other = comparison === 'truth' ? after : `() => ${after}`;
    if (isCompared) value = `__faults.compare(${id}, ${value}, ${other})`;
  }
  return `(${conditions}${value})`;
}

/** Whether a fault is known to be the same program: by names and texts, since files may move and lines shift. */
export function isKnown(equivalents, { place, lineText, fault }) {
  return equivalents.some(
    (known) => known.in === place && known.line === lineText && known.faults.includes(fault),
  );
}
