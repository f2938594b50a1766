/** Whole pickled modules (`torch.nn.Module`), read as `state_dict()` would list them. Their code is never run. */

import {
  PickleList,
  PickleMap,
  PickleSet,
  type PickleValue,
  Placeholder,
} from '../../pickle/values.js';

/** An object with the attributes of a module. */
type Module = Placeholder & { readonly state: PickleMap };

/** Whether an object of an unknown class has the attributes in which a module registers its tensors. */
export function isModule(value: PickleValue | undefined): value is Module {
  if (!(value instanceof Placeholder) || !(value.state instanceof PickleMap)) return false;
  const { state } = value;
  return ['_parameters', '_buffers', '_modules'].every(
    (name) => mapOf(state.get(name)) !== undefined,
  );
}

/**
 * What a module registers, in the order of `state_dict()`: parameters, buffers, modules. Like `state_dict()`, leaves
 * out other attributes and buffers that are not persistent.
 */
export function* registeredIn({
  state,
}: Module): Generator<[PickleValue, PickleValue], void, void> {
  const passing = namesIn(state.get('_non_persistent_buffers_set'));
  yield* mapOf(state.get('_parameters')) as PickleMap;
  for (const [name, buffer] of mapOf(state.get('_buffers')) as PickleMap) {
    if (!passing.has(name)) yield [name, buffer];
  }
  yield* mapOf(state.get('_modules')) as PickleMap;
}

/** The entries of a dict, of any kind. */
function mapOf(value: PickleValue | undefined): PickleMap | undefined {
  if (value instanceof PickleMap) return value;
  return value instanceof Placeholder && !isModule(value) ? value.entries : undefined;
}

function namesIn(value: PickleValue | undefined): ReadonlySet<PickleValue> {
  const items = value instanceof Placeholder ? value.args[0] : value;
  if (items instanceof PickleSet) return new Set(items);
  return new Set(items instanceof PickleList ? items.items : []);
}
