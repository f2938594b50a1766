/** Names and metadata that try to control a terminal, to hide, or to pass for something else. */
import type { Entry, FileOptions } from '../support/make-file.js';

/** Every one is harmless when it is printed as it should be. */
export const HOSTILE_NAMES: readonly string[] = [
  'clear\x1b[2J\x1b[H',
  'title\x1b]0;owned\x07',
  'link\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\',
  'c1\x9b31mred\x85next',
  'bidi\u202egnp.exe\u2066',
  'zero\u200bwidth\ufeff',
  'line\u2028separator\u2029',
  'new\nline\rreturn\ttab\0nul',
  'tag\u{e0041}\u{e007f}',
  '<script>alert(1)</script>',
  '__proto__',
  'constructor',
  '日本語の名前',
  'e\u0301\u0301\u0301',
  `long${'x'.repeat(2 ** 16)}`,
];

export const HOSTILE_ENTRIES: readonly Entry[] = HOSTILE_NAMES.map((name) => ({
  name,
  dtype: 'U8',
  shape: [1],
}));

export const HOSTILE_METADATA: FileOptions = {
  metadata: Object.fromEntries(HOSTILE_NAMES.map((name) => [name, `value of ${name}`])),
};

/** Characters that no output may contain: all but printable ones and its own newlines. */
export const UNSAFE_OUTPUT: RegExp =
  /(?!\n)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
