/**
 * Checks the kind of a value, and finds an array's memory. In a `vm` context, and so under Jest, `instanceof` is
 * false for objects of another realm: errors and results of Node's own modules, and the caller's objects made
 * elsewhere.
 *
 * Arrays and buffers are read through the getters of the built-in prototypes, which look at the object itself, of any
 * realm. An own property or a getter of a subclass could lie, and threads would then write to memory that is not
 * held. Other values only need the members that the library uses.
 *
 * `SafetensorsError` and `Tensor` are classes of this library, which exist once in a realm. For them
 * `instanceof` is right.
 */

/** Returns a prototype's getter as a function; the result is undefined for objects of another kind. */
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

/** Returns the tag of a value, such as `Float16Array`. An object can choose any tag. */
export function tagOf(value: unknown): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

/** As `tagOf` of a typed array, without building a string. */
export function tagOfArray(array: ArrayBufferView): string {
  const { [Symbol.toStringTag]: tag } = array as { readonly [Symbol.toStringTag]?: unknown };
  return typeof tag === 'string' ? tag : 'Object';
}

/** Whether a value is a typed array of any kind. */
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
  // The getters below throw for other objects, which is slow. A buffer passes this check only if its prototype was
  // replaced.
  if (isTypedArray(value) || isPlainObject(value)) return false;
  return byteLengthOfBuffer(value) !== undefined || isSharedArrayBuffer(value);
}

/** Whether a value is as object literals are, of any realm. */
export function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** A place of bytes in memory. */
interface ArrayMemory {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** Returns the memory of a typed array or a buffer. Empty when it was detached, or resized too far. */
export function memoryOf(array: ArrayBufferView | ArrayBufferLike): ArrayMemory {
  // This getter never throws; the others do, which is slow.
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

/** Returns the same memory as an array without own members. */
export function plainFloat32Array(array: Float32Array): Float32Array {
  const { buffer, byteOffset, byteLength } = memoryOf(array);
  // An array over a detached buffer cannot be made.
  if (byteLength === 0) return new Float32Array(0);
  return new Float32Array(buffer, byteOffset, byteLength / Float32Array.BYTES_PER_ELEMENT);
}

/** Returns the bytes of a typed array or a buffer, as an array without own members. */
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
