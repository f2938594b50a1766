/** Decides by names whether a checkpoint may be an adapter, before the code that reads adapters is loaded. */

/** What all keys of a PEFT adapter begin with. */
export const PEFT_PREFIX = 'base_model.model.';

/** Whether an adapter is PEFT's, by its path and keys. */
export function isPeft(path: string | undefined, keys: Iterable<string>): boolean {
  if (/(?:^|[\\/])adapter_model\.[^\\/]*$/.test(path ?? '')) return true;
  for (const key of keys) if (key.startsWith(PEFT_PREFIX)) return true;
  return false;
}

/** In every key that shows the kind of an adapter: one of its factors, or a module that kohya's scripts name. */
const MARK = /lora|lycoris_|hada_w1_a|lokr_w1|ia3_l|on_input|trainable_tokens_delta/;

/** Whether a checkpoint may be an adapter. False only where `describeAdapter` returns null. */
export function mayBeAdapter(path: string | undefined, keys: readonly string[]): boolean {
  return isPeft(path, keys) || keys.some((key) => MARK.test(key));
}
