// Builds one hostile header of 100 MB, parses it, and prints the cost as JSON.
// argv: the attack's name, or `bare` for a process that only loads the same modules.
import process from 'node:process';
import { parseHeader } from '../../../build/header/header.js';
import { hashString } from '../../../build/header/json/key-hash.js';
import { JsonReader } from '../../../build/header/json/reader.js';
import { measured, referenceMilliseconds } from '../../support/processor-cost.mjs';
import { ATTACKS } from '../hostile-headers.mjs';

const BYTE_LENGTH = 100_000_000;

function hasher(quoted) {
  const reader = new JsonReader(quoted);
  return () => {
    reader.at = 0;
    return hashString(reader, reader.readString(), [0, 0]);
  };
}

const attack = process.argv[2];
if (attack === 'bare') {
  console.log(JSON.stringify({ maxRssKb: process.resourceUsage().maxRSS }));
} else {
  const { json, dataByteLength } = ATTACKS[attack](BYTE_LENGTH, hasher);
  const fileByteLength = 8 + json.length + dataByteLength;
  const cost = measured(() => {
    try {
      return `${parseHeader(json, fileByteLength).size} tensors`;
    } catch (error) {
      return error.code;
    }
  });
  const maxRssKb = process.resourceUsage().maxRSS;
  const milliseconds = referenceMilliseconds({
    ...cost,
    milliseconds: Math.min(cost.wallMilliseconds, cost.milliseconds),
  });
  console.log(JSON.stringify({ milliseconds, maxRssKb, outcome: cost.result }));
}
