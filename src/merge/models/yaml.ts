/**
 * Reads recipes in YAML by js-yaml: one document of the core schema, without tags. What aliases repeat is limited,
 * since few of them can stand for any number of values.
 */

import { CORE_SCHEMA, load, Type, type YAMLException } from 'js-yaml';
import { SafetensorsError } from '../../errors/errors.js';

/** Numbers of the core schema: js-yaml has binary ones, too, and takes -.5 as text. */
const SCHEMA = CORE_SCHEMA.extend({
  implicit: [
    new Type('tag:yaml.org,2002:int', {
      kind: 'scalar',
      resolve: (text) => /^(?:[-+]?\d+|0o[0-7]+|0x[\da-fA-F]+)$/.test(text),
      construct: Number,
    }),
    new Type('tag:yaml.org,2002:float', {
      kind: 'scalar',
      resolve: (text) =>
        /^(?:[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/.test(
          text,
        ),
      construct: (text) => Number(text.replace(/\.inf/i, 'Infinity').replace(/\.nan/i, 'NaN')),
    }),
  ],
});

const MAX_ALIASES = 100;

/** Values of a document, with those that aliases repeat: more than a text of 1 MiB holds without aliases. */
const MAX_VALUES = 2 ** 20;

/** Levels of a document, with those that aliases repeat: js-yaml allows 100 without. */
const MAX_DEPTH = 1000;

/** Spaces, line breaks, comments and an anchor in front of a node, then the sign of a tag or of an alias. */
const TAG_OR_ALIAS =
  /(?:[ \t\r\n]|#[^\r\n]*(?![^\r\n]))*(?:&[^ \t\r\n,[\]{}]+(?:[ \t\r\n]|#[^\r\n]*(?![^\r\n]))+)?([!*])/y;

/**
 * Parses a document.
 *
 * @param path the file, for errors
 * @throws SafetensorsError `SAFETENSORS_INVALID_RECIPE`, with the line
 */
export function parseYaml(text: string, path: string): unknown {
  /** Positions: a node that may be a key is read twice. */
  const aliases = new Set<number>();
  const fail = (message: string, line?: number): never => {
    const place = line === undefined ? '' : `line ${line}: `;
    throw new SafetensorsError(
      'SAFETENSORS_INVALID_RECIPE',
      `the recipe cannot be parsed: ${place}${message}`,
      { path },
    );
  };
  let value: unknown;
  try {
    value = load(text, {
      schema: SCHEMA,
      json: false,
      listener(event, { input, position }) {
        if (event === 'close') return;
        TAG_OR_ALIAS.lastIndex = position;
        const [, sign] = TAG_OR_ALIAS.exec(input) ?? [];
        if (sign === undefined) return;
        const at = TAG_OR_ALIAS.lastIndex;
        if (sign === '!') fail('tags are not supported', lineAt(input, at));
        aliases.add(at);
        if (aliases.size > MAX_ALIASES) {
          fail(`more than ${MAX_ALIASES} aliases`, lineAt(input, at));
        }
      },
    });
  } catch (error) {
    // Errors about a second document have no mark.
    const { name, reason, mark } = error as Pick<YAMLException, 'name' | 'reason'> &
      Partial<YAMLException>;
    if (name !== 'YAMLException') throw error;
    fail(reason, mark && mark.line + 1);
  }
  if (aliases.size > 0 && countValues(value, 0, new Map()) > MAX_VALUES) {
    fail(`the aliases are nested too deeply, or stand for more than ${MAX_VALUES} values`);
  }
  // Nothing was read from a text without a document.
  return value ?? null;
}

/** Counts values, those that aliases repeat again; Infinity for one that contains itself or is nested too deeply. */
function countValues(value: unknown, depth: number, known: Map<object, number>): number {
  if (typeof value !== 'object' || value === null) return 1;
  if (depth === MAX_DEPTH) return Number.POSITIVE_INFINITY;
  const count = known.get(value);
  if (count !== undefined) return count;
  known.set(value, Number.POSITIVE_INFINITY);
  let sum = 1;
  for (const member of Object.values(value)) sum += countValues(member, depth + 1, known);
  known.set(value, sum);
  return sum;
}

/** The line of a position, from 1. */
function lineAt(text: string, position: number): number {
  return text.slice(0, position).split(/\r\n|\n|\r/).length;
}
