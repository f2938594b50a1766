/**
 * The values that a pickle builds: pure data. No prototype or property name comes from the pickle. Safe integers are
 * numbers, others bigints; tuples are arrays.
 */

/** Anything on the stack of the machine. */
export type PickleValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | PickleTuple
  | PickleFloat
  | PickleBytes
  | PickleList
  | PickleMap
  | PickleSet
  | PickleObject;

/** A tuple; immutable. */
export type PickleTuple = readonly PickleValue[];

/** A floating-point number: 1.0 is not a size, 1 is. */
export class PickleFloat {
  readonly value: number;

  /** One of Python's floats. */
  constructor(value: number) {
    this.value = value;
  }
}

/** Bytes, a copy. */
export class PickleBytes {
  readonly bytes: Uint8Array<ArrayBuffer>;

  /** Takes ownership of the bytes. */
  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.bytes = bytes;
  }

  /** Whether the bytes are mutable and so cannot be a key. */
  get isMutable(): boolean {
    return false;
  }
}

/** A bytearray. */
export class PickleByteArray extends PickleBytes {
  override get isMutable(): boolean {
    return true;
  }
}

/** A list. */
export class PickleList {
  readonly items: PickleValue[] = [];
}

/** Values that hosts build from globals and calls. */
export abstract class PickleObject {
  /** A text that is equal for objects that are equal as keys of a dict; undefined for objects that cannot be keys. */
  get formattedKey(): string | undefined {
    return undefined;
  }
}

/** A class or function that a pickle names. */
export class PickleGlobal extends PickleObject {
  readonly module: string;
  readonly name: string;
  /** Whether the global is unknown: calling it makes a placeholder. */
  readonly isUnknown: boolean;

  /** Module and name from the pickle, or their Python 3 spelling. */
  constructor(module: string, name: string, isUnknown = false) {
    super();
    this.module = module;
    this.name = name;
    this.isUnknown = isUnknown;
  }

  /** Module and name with a dot. */
  get path(): string {
    return `${this.module}.${this.name}`;
  }

  override get formattedKey(): string {
    return `g${this.module} ${this.name}`;
  }
}

/** Placeholder for the result of an unknown global: holds the arguments, state and contents. */
export class Placeholder extends PickleObject {
  readonly global: PickleGlobal;
  readonly args: PickleTuple;
  state: PickleValue = null;
  #items: PickleList | undefined;
  #entries: PickleMap | undefined;

  /** Runs nothing. */
  constructor(global: PickleGlobal, args: PickleTuple) {
    super();
    this.global = global;
    this.args = args;
  }

  /** Appended items, for unknown kinds of lists; created on first use. */
  get items(): PickleList {
    this.#items ??= new PickleList();
    return this.#items;
  }

  /** Set entries, for unknown kinds of dicts; created on first use. */
  get entries(): PickleMap {
    this.#entries ??= new PickleMap();
    return this.#entries;
  }

  /** Whether the placeholder has items or entries. */
  get isFilled(): boolean {
    return this.#items !== undefined || this.#entries !== undefined;
  }
}

/**
 * Keys other than strings are compared by a text. These limits bound its parts and its total length: a pickle of a
 * few bytes can use a long key a million times.
 */
const MAX_KEY_PARTS = 16;
const MAX_KEY_LENGTH = 320;

/** A dict, in the order in which its keys were set first. */
export class PickleMap {
  /** Its class in Python. */
  readonly kind: 'dict' | 'OrderedDict' | 'Counter';
  #entries: Map<PickleValue, PickleValue> | undefined;
  /** Keys other than strings, by the text that is equal for equal keys. */
  #others: Map<string, PickleValue> | undefined;

  /** Makes an empty dict. */
  constructor(kind: 'dict' | 'OrderedDict' | 'Counter' = 'dict') {
    this.kind = kind;
  }

  get size(): number {
    return this.#entries?.size ?? 0;
  }

  /** Sets a value; an existing key keeps its place. Returns false if `key` cannot be a key. */
  set(key: PickleValue, value: PickleValue): boolean {
    this.#entries ??= new Map();
    if (typeof key === 'string' || isNotANumber(key)) {
      this.#entries.set(key, value);
      return true;
    }
    const text = keyIdentity(key);
    if (text === undefined) return false;
    this.#others ??= new Map();
    const known = this.#others.get(text);
    if (known === undefined) this.#others.set(text, key);
    this.#entries.set(known ?? key, value);
    return true;
  }

  /** The value of a key. */
  get(key: string | number): PickleValue | undefined {
    if (typeof key === 'string') return this.#entries?.get(key);
    const known = this.#others?.get(keyIdentity(key) as string);
    return known === undefined ? undefined : this.#entries?.get(known);
  }

  /** Keys and values in order. */
  *[Symbol.iterator](): Generator<[PickleValue, PickleValue], void, void> {
    if (this.#entries !== undefined) yield* this.#entries;
  }
}

/** A set, in the order in which its items were added. */
export class PickleSet {
  readonly #items = new PickleMap();

  /** Returns false when the value cannot be an item. */
  add(value: PickleValue): boolean {
    return this.#items.set(value, null);
  }

  /** The items in order. */
  *[Symbol.iterator](): Generator<PickleValue, void, void> {
    for (const [item] of this.#items) yield item;
  }
}

/**
 * A text that is equal for keys that Python regards as equal: 1, 1.0 and True. Undefined for values that cannot be
 * keys.
 */
function keyIdentity(key: PickleValue): string | undefined {
  if (!Array.isArray(key)) return simpleKeyText(key);
  let text = '';
  let count = 0;
  const rest: PickleValue[] = [key];
  for (let next = rest.pop(); next !== undefined; next = rest.pop()) {
    if (++count + rest.length > MAX_KEY_PARTS) return undefined;
    if (Array.isArray(next)) {
      if (next.length > MAX_KEY_PARTS) return undefined;
      text += `t${next.length} `;
      rest.push(...next.toReversed());
    } else {
      const part = simpleKeyText(next);
      if (part === undefined || text.length + part.length > MAX_KEY_LENGTH) return undefined;
      text += `${part} `;
    }
  }
  return text;
}

function simpleKeyText(key: PickleValue): string | undefined {
  if (key === null) return 'None';
  if (typeof key === 'boolean') return `n${Number(key)}`;
  if (typeof key === 'number') return `n${key.toString(16)}`;
  if (key instanceof PickleFloat) return isNotANumber(key) ? undefined : numberIdentity(key.value);
  if (key instanceof PickleObject) {
    const text = key.formattedKey;
    return text === undefined || text.length > MAX_KEY_LENGTH ? undefined : text;
  }
  if (typeof key === 'bigint') {
    // Floats have at most 1024 bits.
    const digits = key.toString(16);
    return digits.length > MAX_KEY_LENGTH ? undefined : `n${digits}`;
  }
  if (typeof key === 'string') {
    return key.length > MAX_KEY_LENGTH ? undefined : `s${JSON.stringify(key)}`;
  }
  if (!(key instanceof PickleBytes) || key.isMutable) return undefined;
  if (key.bytes.length > MAX_KEY_LENGTH) return undefined;
  return `b${key.bytes.length} ${String.fromCharCode(...key.bytes)}`;
}

/** To Python, a NaN is equal to nothing but the same object. */
function isNotANumber(key: PickleValue): boolean {
  return key instanceof PickleFloat && Number.isNaN(key.value);
}

/** An integral float is equal to the integer. */
function numberIdentity(value: number): string {
  return `n${Number.isInteger(value) ? BigInt(value).toString(16) : value}`;
}
