/**
 * Reads the part of YAML that recipes are written in: block and flow collections, plain and quoted scalars of the core
 * schema, comments, anchors. Whatever it reads means the same to every parser of YAML 1.2; anything else is an error
 * with its line: tags, block scalars, plain scalars of several lines, complex keys, several documents.
 */

const MAX_ALIASES = 100;
const MAX_DEPTH = 100;

/** A line without its indentation. */
interface Line {
  readonly number: number;
  readonly indent: number;
  readonly text: string;
}

/** Parses a document. Throws a SyntaxError. */
export function parseYaml(text: string): unknown {
  return new YamlReader(text).read();
}

class YamlReader {
  /** Lines that are neither empty nor comments. */
  readonly #lines: readonly Line[];
  readonly #anchors = new Map<string, unknown>();
  #aliases = 0;
  #depth = 0;
  /** The current line, and the place in its text. */
  #line = 0;
  #at = 0;
  /** Least indentation of further lines of a flow collection. */
  #minIndent = 0;

  constructor(text: string) {
    const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\n|\r/);
    const found = lines.map((whole, i): Line => {
      const [, spaces = '', rest = ''] = /^( *)(.*)$/s.exec(whole) ?? [];
      return { number: i + 1, indent: spaces.length, text: rest.replace(/[ \t]+$/, '') };
    });
    const used = found.filter(({ text }) => text !== '' && !text.startsWith('#'));
    const isMark = (line: Line | undefined, mark: string): boolean =>
      line?.indent === 0 && new RegExp(`^${mark}(?:[ \\t]+#.*)?$`).test(line.text);
    if (isMark(used[0], '---')) used.shift();
    if (isMark(used.at(-1), '\\.\\.\\.')) used.pop();
    this.#lines = used;
    for (const [i, { indent, text }] of used.entries()) {
      this.#line = i;
      if (indent === 0 && /^(?:---|\.\.\.)(?:\s|$)|^%/.test(text)) {
        this.#fail('only one document, without directives, is supported');
      }
      if (text.startsWith('\t')) this.#fail('tabs cannot indent');
    }
    this.#line = 0;
  }

  read(): unknown {
    if (this.#lines.length === 0) return null;
    const value = this.#block(0);
    if (this.#line < this.#lines.length)
      this.#fail('unexpected indentation, or text after the end');
    return value;
  }

  get #current(): Line | undefined {
    return this.#lines[this.#line];
  }

  /** The rest of the current line. */
  get #rest(): string {
    return this.#current?.text.slice(this.#at) ?? '';
  }

  /** Column of the current place. */
  get #column(): number {
    return (this.#current?.indent ?? 0) + this.#at;
  }

  #fail(message: string): never {
    throw new SyntaxError(`line ${this.#current?.number ?? 'at the end'}: ${message}`);
  }

  #nextLine(): void {
    this.#line++;
    this.#at = 0;
  }

  /** Parses what begins here, at a column of at least `indent`. */
  #block(indent: number): unknown {
    if (++this.#depth > MAX_DEPTH) this.#fail('nested too deeply');
    const column = this.#column;
    if (column < indent) this.#fail('too little indentation');
    const value = /^-(?=\s|$)/.test(this.#rest)
      ? this.#sequence(column)
      : this.#isKeyHere()
        ? this.#mapping(column)
        : this.#wholeLine(indent);
    this.#depth--;
    return value;
  }

  /**
   * A value that ends with its line, or a flow collection of several. Further lines of it have at least this
   * indentation.
   */
  #wholeLine(indent: number): unknown {
    this.#minIndent = indent;
    const value = this.#inline(false);
    this.#skip();
    if (this.#rest !== '') this.#fail(`unexpected ${JSON.stringify(this.#rest)}`);
    this.#nextLine();
    const next = this.#current;
    if (next !== undefined && next.indent >= indent && indent > 0) {
      this.#fail('a value of several lines is not supported');
    }
    return value;
  }

  #sequence(column: number): unknown[] {
    const items: unknown[] = [];
    while (this.#column === column && /^-(?=\s|$)/.test(this.#rest)) {
      this.#at++;
      this.#skip();
      items.push(this.#rest === '' ? this.#below(column + 1) : this.#block(column + 1));
    }
    return items;
  }

  /** The value on the lines below an empty place; null when there is none. */
  #below(indent: number): unknown {
    this.#nextLine();
    const next = this.#current;
    return next === undefined || next.indent < indent ? null : this.#block(indent);
  }

  #isKeyHere(): boolean {
    const rest = this.#rest;
    return /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'[\]{}&*!|>%@`,#?][^#]*?|[^\s"'[\]{}&*!|>%@`,#?](?:[^#]|\S#)*?|[?:-]\S.*?)[ \t]*:(?=\s|$)/.test(
      rest,
    );
  }

  #mapping(column: number): unknown {
    const members = new Map<string, unknown>();
    while (this.#current !== undefined && this.#column === column) {
      if (!this.#isKeyHere()) this.#fail('expected a key and a colon');
      const key = this.#key(members);
      this.#skip();
      members.set(key, this.#member(column));
    }
    return Object.fromEntries(members);
  }

  /** A key with its colon. */
  #key(members: ReadonlyMap<string, unknown>): string {
    const quote = this.#rest[0];
    const key = quote === '"' || quote === "'" ? this.#quoted(quote) : this.#plainText(false);
    this.#skip();
    if (this.#rest[0] !== ':') this.#fail('expected a colon after a key');
    this.#at++;
    if (members.has(key)) this.#fail(`duplicate key ${JSON.stringify(key)}`);
    if (key === '<<') this.#fail('merge keys are not supported');
    return key;
  }

  /** The value of a key. */
  #member(column: number): unknown {
    const anchor = this.#anchor();
    let value: unknown;
    if (this.#rest !== '') {
      if (this.#isKeyHere() || /^-(?=\s|$)/.test(this.#rest)) {
        this.#fail('a collection cannot begin after a key');
      }
      value = this.#wholeLine(column + 1);
    } else {
      this.#nextLine();
      const next = this.#current;
      // Items of a list may begin at the column of their key.
      const isList = next?.indent === column && /^-(?=\s|$)/.test(next.text);
      const isBelow = next !== undefined && (next.indent > column || isList);
      value = isBelow ? this.#block(isList ? column : column + 1) : null;
    }
    if (anchor !== null) this.#anchors.set(anchor, value);
    return value;
  }

  #anchor(): string | null {
    const [found, name] = /^&([\w.-]+)(?=\s|$)/.exec(this.#rest) ?? [];
    if (found === undefined) return null;
    this.#at += found.length;
    this.#skip();
    return name as string;
  }

  /** A scalar, an alias or a flow collection. */
  #inline(isFlow: boolean): unknown {
    const anchor = this.#anchor();
    const value = this.#unnamed(isFlow);
    if (anchor !== null) this.#anchors.set(anchor, value);
    return value;
  }

  #unnamed(isFlow: boolean): unknown {
    const [first = ''] = this.#rest;
    if (first === '[' || first === '{') return this.#flow(first);
    if (first === '"' || first === "'") return this.#quoted(first);
    if (first === '*') return this.#alias();
    if (first === '!') this.#fail('tags are not supported');
    if (first === '|' || first === '>') this.#fail('block scalars are not supported');
    if (first !== '' && '%@`&,]}'.includes(first)) this.#fail(`unexpected ${first}`);
    if (/^\?(?=\s|$)/.test(this.#rest)) this.#fail('complex keys are not supported');
    return scalarOf(this.#plainText(isFlow));
  }

  #alias(): unknown {
    const [found, name = ''] = /^\*([\w.-]+)(?=[\s,\]}]|$)/.exec(this.#rest) ?? [];
    if (found === undefined || !this.#anchors.has(name)) this.#fail('unknown alias');
    if (++this.#aliases > MAX_ALIASES) this.#fail(`more than ${MAX_ALIASES} aliases`);
    this.#at += found.length;
    return this.#anchors.get(name);
  }

  #flow(open: '[' | '{'): unknown {
    if (++this.#depth > MAX_DEPTH) this.#fail('nested too deeply');
    const close = open === '[' ? ']' : '}';
    const items: unknown[] = [];
    const members = new Map<string, unknown>();
    this.#at++;
    for (;;) {
      this.#skipInFlow();
      if (this.#rest[0] === close) break;
      if (open === '[') {
        items.push(this.#inline(true));
        this.#skipInFlow();
        if (this.#rest[0] === ':') this.#fail('pairs in lists are not supported');
      } else {
        const key = this.#flowKey(members);
        this.#skipInFlow();
        const isEmpty = this.#rest[0] === ',' || this.#rest[0] === '}';
        members.set(key, isEmpty ? null : this.#inline(true));
        this.#skipInFlow();
      }
      if (this.#rest[0] === ',') this.#at++;
      else if (this.#rest[0] !== close) this.#fail(`expected , or ${close}`);
    }
    this.#at++;
    this.#depth--;
    return open === '[' ? items : Object.fromEntries(members);
  }

  #flowKey(members: ReadonlyMap<string, unknown>): string {
    const quote = this.#rest[0];
    const key = quote === '"' || quote === "'" ? this.#quoted(quote) : this.#plainText(true);
    if (!/^:(?=[\s,\]}]|$)/.test(this.#rest)) this.#fail('expected a colon after a key');
    this.#at++;
    if (members.has(key)) this.#fail(`duplicate key ${JSON.stringify(key)}`);
    if (key === '<<') this.#fail('merge keys are not supported');
    return key;
  }

  /** Skips spaces and a comment. */
  #skip(): void {
    const [found = ''] = /^[ \t]*(?:(?<=[ \t])#.*)?/.exec(this.#rest) ?? [];
    this.#at += found.length;
  }

  #skipInFlow(): void {
    this.#skip();
    while (this.#rest === '') {
      this.#nextLine();
      if (this.#current === undefined) this.#fail('a bracket is not closed');
      if ((this.#current as Line).indent < this.#minIndent) this.#fail('too little indentation');
    }
  }

  #plainText(isFlow: boolean): string {
    const pattern = isFlow
      ? /^(?:[^\s,[\]{}#:&*!|>'"%@`?-]|[-?:](?=[^\s,[\]{}]))(?:[^\s,[\]{}:#]|:(?=[^\s,[\]{}])|(?<=\S)#|[ \t]+(?=[^\s,[\]{}:#]|:[^\s,[\]{}]))*/
      : /^(?:[^\s,[\]{}#:&*!|>'"%@`?-]|[-?:](?=\S))(?:[^\s:#]|:(?=\S)|(?<=\S)#|[ \t]+(?=[^\s:#]|:\S))*/;
    const [found] = pattern.exec(this.#rest) ?? [];
    if (found === undefined) this.#fail(`expected a value, found ${JSON.stringify(this.#rest)}`);
    this.#at += found.length;
    return found;
  }

  #quoted(quote: '"' | "'"): string {
    const pattern = quote === '"' ? /^"((?:[^"\\]|\\.)*)"/ : /^'((?:[^']|'')*)'/;
    const [found, text = ''] = pattern.exec(this.#rest) ?? [];
    if (found === undefined) this.#fail('a quoted text must end on its line');
    this.#at += found.length;
    if (quote === "'") return text.replaceAll("''", "'");
    try {
      return JSON.parse(found.replaceAll('\t', '\\t'));
    } catch {
      this.#fail(`unsupported escape in ${found}`);
    }
  }
}

/** The value of a plain scalar by the core schema. */
function scalarOf(text: string): unknown {
  if (/^(?:~|null|Null|NULL)$/.test(text)) return null;
  if (/^(?:true|True|TRUE)$/.test(text)) return true;
  if (/^(?:false|False|FALSE)$/.test(text)) return false;
  if (/^[-+]?\d+$|^0o[0-7]+$|^0x[\da-f]+$/i.test(text)) return Number(text);
  if (/^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:e[-+]?\d+)?$/i.test(text)) return Number(text);
  if (/^[-+]?\.(?:inf|Inf|INF)$/.test(text)) {
    return text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  }
  return /^\.(?:nan|NaN|NAN)$/.test(text) ? Number.NaN : text;
}
