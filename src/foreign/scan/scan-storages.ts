/** Collects the storages that a pickle names: they account for the bytes next to it. */

import { FormatError } from '../../errors/errors.js';
import { PickledBytes } from '../pickle/inner-files.js';
import { isGlobal, KnownBytes, type KnownValue } from '../pickle/known-values.js';
import { PickleBytes, PickleMap, type PickleValue } from '../pickle/values.js';
import { allowedGlobal } from '../torch/state-dict/globals.js';
import { StorageIds } from '../torch/state-dict/storage-ids.js';
import type { ScanNotes } from './scan-notes.js';

/** Most storages: as many as an archive can have entries. */
const MAX_STORAGES = 200_000;

/** Persistent id of a whole module before torch 1.6: a class and its source, which torch only compares. */
const MODULE_TAG = 'module';
const MODULE_LENGTH = 4;

/** The storages of one pickle. */
export class NamedStorages {
  readonly ids: StorageIds;
  readonly #isLegacy: boolean;
  readonly #notes: ScanNotes;
  readonly #entry: string | undefined;

  constructor(isLegacy: boolean, notes: ScanNotes, entry: string | undefined) {
    this.ids = new StorageIds(isLegacy, entry === undefined ? {} : { part: entry });
    this.#isLegacy = isLegacy;
    this.#notes = notes;
    this.#entry = entry;
  }

  /** Notes a persistent id: as a storage, else as a finding. */
  readonly note = (id: KnownValue, at: number): void => {
    if (this.#isLegacy && isModule(id)) return;
    if (this.ids.storages.size >= MAX_STORAGES) {
      this.#notes.add('limit', `found more than ${MAX_STORAGES} storages`, at, this.#entry);
      return;
    }
    try {
      this.ids.resolve(pickleValueOf(id), at);
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      this.#notes.add('persistent-id', error.message, at, this.#entry);
    }
  };
}

function isModule(id: KnownValue): boolean {
  if (!Array.isArray(id)) return false;
  const [tag, type] = id as readonly KnownValue[];
  return tag === MODULE_TAG && id.length === MODULE_LENGTH && isGlobal(type);
}

/** An empty dict stands for unknown values: no part of a persistent id is a dict. */
function pickleValueOf(known: KnownValue): PickleValue {
  if (known === undefined || known instanceof PickledBytes) return new PickleMap();
  if (Array.isArray(known)) return known.map(pickleValueOf);
  if (known instanceof KnownBytes)
    return new PickleBytes(new Uint8Array(Buffer.from(known.characters)));
  if (isGlobal(known)) return allowedGlobal(known.module, known.name) ?? new PickleMap();
  return known as PickleValue;
}
