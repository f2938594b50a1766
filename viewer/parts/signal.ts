/** A value outside of the tree of parts that renders the parts which use it. */

import { useEffect, useState } from 'preact/hooks';

/** Holds a value, and tells who listens when it is set. */
export interface Signal<Value> {
  value: Value;
  listen(listener: (value: Value) => void): () => void;
}

/** Makes a signal. */
export function signal<Value>(start: Value): Signal<Value> {
  const listeners = new Set<(value: Value) => void>();
  let current = start;
  return {
    get value() {
      return current;
    },
    set value(next) {
      current = next;
      for (const listener of listeners) listener(next);
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The value of a signal, renewed when it is set. */
export function useSignal<Value>(source: Signal<Value>): Value {
  const [value, setValue] = useState(source.value);
  useEffect(() => {
    setValue(source.value);
    return source.listen(setValue);
  }, [source]);
  return value;
}
