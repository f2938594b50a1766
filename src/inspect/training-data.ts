/** Finds trainers' data in the metadata of a file: settings, names of data, paths of their machines. */

/** Prefix of the keys of kohya's scripts and their successors. */
const TRAINING_KEY = /^ss_/;

/** Keys that programs need to use such a file; kohya's scripts write them even with `--no_metadata`. */
const NEEDED_KEYS: readonly string[] = [
  'ss_v2',
  'ss_base_model_version',
  'ss_network_module',
  'ss_network_dim',
  'ss_network_alpha',
  'ss_network_args',
];

/** A path of some machine: in a home, on a mounted disk, a Windows drive or share; or a file: URL. */
const LOCAL_PATH =
  /(?:^|[^\w.:/])(?:file:\/\/|\/(?:home|Users|Volumes|root|mnt|media|workspace|content|kaggle|data|tmp|var|opt)\/|~\/|[A-Za-z]:[\\/]|\\\\\w)/;

/** The reason to remove a value; null to keep it. */
export function strippedAs(key: string, value: string): 'training' | 'path' | null {
  if (TRAINING_KEY.test(key) && !NEEDED_KEYS.includes(key)) return 'training';
  return !value.startsWith('data:') && LOCAL_PATH.test(value) ? 'path' : null;
}
