/**
 * GPT-2, whole: tokenizer, forward pass with a cache of keys and values, sampling. Weights in F32 are used where they are,
 * in the mapped file: nothing is loaded, and only what is touched is in memory.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { safeOpen } from 'safetensors-mmap';

// --- arithmetic: vectors are Float32Arrays, matrices too, row by row -------------------------------------------------

/** x · W + b, as GPT-2 stores its layers: W is [inputs, outputs]. */
function linear(x, { weight, bias }) {
  const y = Float32Array.from(bias);
  const width = y.length;
  for (let i = 0; i < x.length; i++) {
    const factor = x[i];
    const row = i * width;
    for (let k = 0; k < width; k++) y[k] += factor * weight[row + k];
  }
  return y;
}

function dot(a, aStart, b, bStart, length) {
  let sum = 0;
  for (let k = 0; k < length; k++) sum += a[aStart + k] * b[bStart + k];
  return sum;
}

function layerNorm(x, { weight, bias }, epsilon) {
  let mean = 0;
  for (const value of x) mean += value;
  mean /= x.length;
  let variance = 0;
  for (const value of x) variance += (value - mean) ** 2;
  const scale = 1 / Math.sqrt(variance / x.length + epsilon);
  return x.map((value, k) => (value - mean) * scale * weight[k] + bias[k]);
}

/** The approximation of GELU that GPT-2 was trained with. */
function gelu(x) {
  const root = Math.sqrt(2 / Math.PI);
  return x.map((v) => 0.5 * v * (1 + Math.tanh(root * (v + 0.044715 * v ** 3))));
}

function add(x, y) {
  for (let k = 0; k < x.length; k++) x[k] += y[k];
}

function softmax(x) {
  const largest = x.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = x.map((value) => Math.exp(value - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((value) => value / sum);
}

// --- the model -------------------------------------------------------------------------------------------------------

/** What this program computes, which is what GPT-2 has. */
const SUPPORTED = {
  model_type: 'gpt2',
  activation_function: 'gelu_new',
  scale_attn_weights: true,
  scale_attn_by_inverse_layer_idx: false,
  add_cross_attention: false,
  tie_word_embeddings: true,
};

function checkConfig(config, path) {
  for (const [key, value] of Object.entries(SUPPORTED)) {
    const found = config[key] ?? value;
    if (found !== value) throw new Error(`${path}: ${key} is ${found}; expected ${value}`);
  }
}

export class GPT2 {
  #checkpoint;
  #prefix;
  #layers;

  /** Opens a file, a folder, or a model in the Hugging Face cache such as `openai-community/gpt2`. */
  constructor(source) {
    this.#checkpoint = safeOpen(source);
    try {
      this.folder = dirname(this.#checkpoint.path);
      const path = join(this.folder, 'config.json');
      this.config = JSON.parse(readFileSync(path, 'utf8'));
      checkConfig(this.config, path);
      // The base model's names have no prefix.
      this.#prefix = this.#checkpoint.has('wte.weight') ? '' : 'transformer.';
      const { n_embd: width, n_layer: count, n_positions: positions } = this.config;
      this.wte = this.#weight('wte.weight', [this.config.vocab_size, width]);
      this.wpe = this.#weight('wpe.weight', [positions, width]);
      this.norm = this.#pair('ln_f', [width]);
      this.#layers = Array.from({ length: count }, (_, i) => ({
        norm1: this.#pair(`h.${i}.ln_1`, [width]),
        attend: this.#pair(`h.${i}.attn.c_attn`, [width, 3 * width]),
        project: this.#pair(`h.${i}.attn.c_proj`, [width, width]),
        norm2: this.#pair(`h.${i}.ln_2`, [width]),
        widen: this.#pair(`h.${i}.mlp.c_fc`, [width, this.config.n_inner ?? 4 * width]),
        narrow: this.#pair(`h.${i}.mlp.c_proj`, [this.config.n_inner ?? 4 * width, width]),
      }));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** F32 is the mapped file itself; other dtypes are converted, which takes memory. */
  #weight(name, shape) {
    const tensor = this.#checkpoint.getTensor(this.#prefix + name);
    if (String(tensor.shape) !== String(shape)) {
      throw new Error(`"${tensor.name}" is [${tensor.shape}]; expected [${shape}]`);
    }
    return tensor.dtype === 'F32' ? tensor.data : tensor.toFloat32();
  }

  #pair(name, shape) {
    const weight = this.#weight(`${name}.weight`, shape);
    return { weight, bias: this.#weight(`${name}.bias`, shape.slice(-1)) };
  }

  /** The keys and values of the tokens so far, of every layer. */
  newCache() {
    const { n_positions: positions, n_embd: width } = this.config;
    const make = () => new Float32Array(positions * width);
    return { length: 0, layers: this.#layers.map(() => ({ keys: make(), values: make() })) };
  }

  /** The logits behind one more token: a number for each token of the vocabulary. */
  next(token, cache) {
    const { n_embd: width, n_positions: positions, vocab_size: size } = this.config;
    const epsilon = this.config.layer_norm_epsilon ?? 1e-5;
    const position = cache.length;
    if (!(token >= 0 && token < size)) throw new RangeError(`no token ${token}`);
    if (position >= positions) throw new RangeError(`more than ${positions} tokens`);
    const x = this.wte.slice(token * width, (token + 1) * width);
    add(x, this.wpe.subarray(position * width, (position + 1) * width));
    cache.length++;
    for (const [i, layer] of this.#layers.entries()) {
      const attended = linear(layerNorm(x, layer.norm1, epsilon), layer.attend);
      add(x, linear(this.#attention(attended, cache.layers[i], position), layer.project));
      const wide = gelu(linear(layerNorm(x, layer.norm2, epsilon), layer.widen));
      add(x, linear(wide, layer.narrow));
    }
    const last = layerNorm(x, this.norm, epsilon);
    // The embeddings are the last layer, too.
    return Float32Array.from({ length: size }, (_, i) => dot(last, 0, this.wte, i * width, width));
  }

  /** Each head looks back with its query: values of earlier tokens, weighted by how well their keys fit. */
  #attention(attended, { keys, values }, position) {
    const { n_embd: width, n_head: heads } = this.config;
    const size = width / heads;
    const query = attended.subarray(0, width);
    keys.set(attended.subarray(width, 2 * width), position * width);
    values.set(attended.subarray(2 * width), position * width);
    const result = new Float32Array(width);
    for (let start = 0; start < width; start += size) {
      const scores = new Float32Array(position + 1);
      for (let t = 0; t <= position; t++) {
        scores[t] = dot(query, start, keys, t * width + start, size) / Math.sqrt(size);
      }
      for (const [t, weight] of softmax(scores).entries()) {
        for (let k = 0; k < size; k++) result[start + k] += weight * values[t * width + start + k];
      }
    }
    return result;
  }

  close() {
    this.#checkpoint.close();
  }
}

// --- text to tokens and back: pairs of bytes are merged in the order that training found -----------------------------

/** GPT-2 writes every byte as a printable character. */
const BYTE_TEXT = (() => {
  const isPrintable = (b) => (b > 32 && b < 127) || (b > 160 && b !== 173);
  let others = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(isPrintable(b) ? b : others++));
})();
const TEXT_BYTE = new Map(BYTE_TEXT.map((text, byte) => [text, byte]));
const WORDS = /'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

export class Tokenizer {
  #ranks;
  #ids;
  #texts;

  constructor(path) {
    const { model } = JSON.parse(readFileSync(path, 'utf8'));
    this.#ids = new Map(Object.entries(model.vocab));
    this.#texts = new Map(Array.from(this.#ids, ([text, id]) => [id, text]));
    const pairs = model.merges.map((pair) => (typeof pair === 'string' ? pair : pair.join(' ')));
    this.#ranks = new Map(pairs.map((pair, rank) => [pair, rank]));
  }

  encode(text) {
    return (text.match(WORDS) ?? []).flatMap((word) => {
      let parts = Array.from(Buffer.from(word), (byte) => BYTE_TEXT[byte]);
      for (;;) {
        const ranks = parts
          .slice(1)
          .map((part, i) => this.#ranks.get(`${parts[i]} ${part}`) ?? Infinity);
        const best = Math.min(...ranks);
        if (best === Infinity) return parts.map((part) => this.#ids.get(part));
        const at = ranks.indexOf(best);
        parts = [...parts.slice(0, at), parts[at] + parts[at + 1], ...parts.slice(at + 2)];
      }
    });
  }

  decode(tokens) {
    const texts = tokens.map((token) => this.#texts.get(token) ?? '');
    return Buffer.from(Array.from(texts.join(''), (text) => TEXT_BYTE.get(text))).toString();
  }
}

// --- the program -----------------------------------------------------------------------------------------------------

/** The likeliest token; with a temperature one by chance. */
function choose(logits, temperature) {
  if (temperature === 0) return logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
  const chances = softmax(logits.map((value) => value / temperature));
  let left = Math.random();
  for (const [token, chance] of chances.entries()) {
    left -= chance;
    if (left < 0) return token;
  }
  return chances.length - 1;
}

function write(model, prompt, { count, temperature }) {
  const tokenizer = new Tokenizer(join(model.folder, 'tokenizer.json'));
  const tokens = tokenizer.encode(prompt);
  if (tokens.length === 0) throw new Error('the prompt is empty');
  const cache = model.newCache();
  const begin = performance.now();
  let logits;
  for (const token of tokens) logits = model.next(token, cache);
  const most = Math.min(count, model.config.n_positions - tokens.length);
  for (let i = 0; i < most; i++) {
    tokens.push(choose(logits, temperature));
    if (i + 1 < most) logits = model.next(tokens.at(-1), cache);
  }
  const seconds = (performance.now() - begin) / 1000;
  console.log(tokenizer.decode(tokens));
  console.log(`\n${tokens.length} tokens, ${(tokens.length / seconds).toFixed(1)} per second`);
}

/** Compares with logits of transformers for the same tokens. */
function compare(model, path) {
  const file = safeOpen(path);
  const tokens = Array.from(file.getTensor('tokens').expectDtype('I64').data, Number);
  const expected = file.getTensor('logits').expectDtype('F32').data;
  file.close();
  const cache = model.newCache();
  const found = tokens.flatMap((token) => Array.from(model.next(token, cache)));
  const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const off = expected.reduce((most, value, i) => Math.max(most, Math.abs(value - found[i])), 0);
  console.log(
    `${tokens.length} tokens, logits up to ${largest.toFixed(2)}, off by ${off.toExponential(1)}`,
  );
  if (!(off <= 1e-5 * largest)) process.exitCode = 1;
}

const usage =
  'usage: node gpt2.js MODEL PROMPT [--new 40] [--temperature 0] | MODEL --compare FILE';
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    new: { type: 'string', default: '40' },
    temperature: { type: 'string', default: '0' },
    compare: { type: 'string' },
  },
});
const [source, prompt] = positionals;
if (source === undefined || (prompt === undefined) === (values.compare === undefined)) {
  console.error(usage);
  process.exit(2);
}
let model;
try {
  model = new GPT2(source);
  const options = { count: Number(values.new), temperature: Number(values.temperature) };
  if (values.compare !== undefined) compare(model, values.compare);
  else write(model, prompt, options);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  model?.close();
}
