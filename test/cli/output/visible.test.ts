import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { visible, visibleJson } from '../../../src/cli/output/visible.js';
import { anyText } from '../../support/any-text.js';
import { HOSTILE_NAMES, UNSAFE_OUTPUT } from '../hostile.js';

describe('visible', () => {
  it('shows what cannot be seen', () => {
    expect(visible('a\x1b[31m\x9b\u202e\u{e0041}\n\t\0\ud800')).toBe(
      'a\\x1b[31m\\x9b\\u202e\\u{e0041}\\n\\t\\x00\\ud800',
    );
    expect(visible('naïve 日本語 C:\\x')).toBe('naïve 日本語 C:\\x');
  });

  it('cuts long texts, and says how long they are', () => {
    expect(visible('x'.repeat(100), 5)).toBe('xxxxx… (100 characters)');
  });

  it('leaves nothing unsafe in any text', () => {
    fc.assert(
      fc.property(anyText(), (text) => {
        expect(UNSAFE_OUTPUT.exec(visible(text))).toBeNull();
        expect(visible(text)).not.toContain('\n');
      }),
    );
  });
});

describe('visibleJson', () => {
  it('says the same without anything unsafe', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
        const text = visibleJson(JSON.stringify(value, null, 1));
        expect(UNSAFE_OUTPUT.exec(text)).toBeNull();
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
    const text = visibleJson(JSON.stringify(HOSTILE_NAMES));
    expect(UNSAFE_OUTPUT.exec(text)).toBeNull();
    expect(JSON.parse(text)).toEqual(HOSTILE_NAMES);
  });

  it('has no returns, with which a line would be written over', () => {
    expect(visibleJson('{"bad":1,\r"good":2,\t"a":3}\n')).toBe('{"bad":1, "good":2, "a":3}\n');
  });
});
