/**
 * Tells what a value is, and where an array's memory is. In a `vm` context, and so under Jest,
 * `instanceof` is false for objects of another realm: what Node's own modules throw and return, and
 * what the caller made elsewhere.
 *
 * Arrays and buffers are asked through the getters of the language's own prototypes. Those look at the
 * object itself, of whatever realm; an own property, or a getter of a subclass, could say anything,
 * and threads would then write to memory that nobody holds. Of other values the members that the
 * library uses are asked for.
 *
 * `SafetensorsError` and `Tensor` are classes of this library, which exist once in a realm. For them
 * `instanceof` is right.
 */

/** A getter of a prototype as a function; it gives undefined for objects of another kind. */
function getterOf<Result>(
  prototype: object | undefined,
  name: PropertyKey,
): (object: unknown) => Result | undefined {
  const get = Object.getOwnPropertyDescriptor(prototype ?? {}, name)?.get as () => Result;
  return (object) => {
    try {
      return Reflect.apply(get, object, []);
    } catch {
      return undefined;
    }
  };
}

const typedArrays: object = Object.getPrototypeOf(Uint8Array.prototype);
const kindOfArray = getterOf<string>(typedArrays, Symbol.toStringTag);
const bufferOfArray = getterOf<ArrayBufferLike>(typedArrays, 'buffer');
const byteOffsetOfArray = getterOf<number>(typedArrays, 'byteOffset');
const byteLengthOfArray = getterOf<number>(typedArrays, 'byteLength');
const byteLengthOfBuffer = getterOf<number>(ArrayBuffer.prototype, 'byteLength');
// Some browsers hide this kind.
const byteLengthOfShared = getterOf<number>(globalThis.SharedArrayBuffer?.prototype, 'byteLength');

/** The name by which a value goes, such as `Float16Array`. An object can give itself any name. */
export function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

/** Whether a value is a typed array, of whatever kind. */
export function isTypedArray(value: unknown): value is ArrayBufferView {
  return kindOfArray(value) !== undefined;
}

/** Whether a value is a Float32Array. */
export function isFloat32Array(value: unknown): value is Float32Array {
  return kindOfArray(value) === 'Float32Array';
}

/** Whether a value is a Uint8Array, such as a Buffer. */
export function isUint8Array(value: unknown): value is Uint8Array {
  return kindOfArray(value) === 'Uint8Array';
}

/** Whether a value is shared memory, which can be neither detached nor made smaller. */
export function isSharedArrayBuffer(value: unknown): value is SharedArrayBuffer {
  return byteLengthOfShared(value) !== undefined;
}

/** Whether a value is an ArrayBuffer or a SharedArrayBuffer. */
export function isAnyArrayBuffer(value: unknown): value is ArrayBufferLike {
  return byteLengthOfBuffer(value) !== undefined || isSharedArrayBuffer(value);
}

/** Where bytes are. */
export interface ArrayMemory {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** The memory of a typed array or of a buffer. Empty when it was detached, or resized too far. */
export function memoryOf(array: ArrayBufferView | ArrayBufferLike): ArrayMemory {
  // The getter that this asks throws for nothing. The others do, which takes long.
  if (isTypedArray(array)) {
    return {
      buffer: bufferOfArray(array) as ArrayBufferLike,
      byteOffset: byteOffsetOfArray(array) ?? 0,
      byteLength: byteLengthOfArray(array) ?? 0,
    };
  }
  const byteLength = byteLengthOfBuffer(array) ?? byteLengthOfShared(array) ?? 0;
  return { buffer: array as ArrayBufferLike, byteOffset: 0, byteLength };
}

/** The same memory as an array without members of its own. */
export function plainFloat32Array(array: Float32Array): Float32Array {
  const { buffer, byteOffset, byteLength } = memoryOf(array);
  // Over a detached buffer no array can be made.
  if (byteLength === 0) return new Float32Array(0);
  return new Float32Array(buffer, byteOffset, byteLength / Float32Array.BYTES_PER_ELEMENT);
}

/** The bytes of a typed array or of a buffer, as an array without members of its own. */
export function plainBytes(array: ArrayBufferView | ArrayBufferLike): Uint8Array {
  const { buffer, byteOffset, byteLength } = memoryOf(array);
  return byteLength === 0 ? new Uint8Array(0) : new Uint8Array(buffer, byteOffset, byteLength);
}

/** Whether a value is an object to iterate over. A string is one value, not a list of characters. */
export function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof Object(value)[Symbol.iterator] === 'function' && typeof value === 'object';
}

/** Whether a value is an object for `for await`, such as a stream. */
export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof Object(value)[Symbol.asyncIterator] === 'function' && typeof value === 'object';
}

/** Whether a value is a URL. The result of the old `url.parse` is not; it has `auth` and `path`. */
export function isUrl(value: unknown): value is URL {
  const { href, protocol, auth, path } = Object(value);
  const isOld = auth !== undefined || path !== undefined;
  return typeof href === 'string' && typeof protocol === 'string' && !isOld;
}

/** Whether a value is an AbortSignal. */
export function isAbortSignal(value: unknown): value is AbortSignal {
  const { aborted, addEventListener, throwIfAborted } = Object(value);
  return (
    typeof aborted === 'boolean' &&
    typeof addEventListener === 'function' &&
    typeof throwIfAborted === 'function'
  );
}
