/**
 * Names of Stable Diffusion's modules: Diffusers's, and those of the single files (SGM) that kohya's SDXL adapters use.
 */

/** Blocks per resolution in both U-Nets. */
const LAYERS = 2;

/** Names of whole modules, SGM's first. */
const MODULES: readonly (readonly [sgm: string, diffusers: string])[] = [
  ['input_blocks.0.0', 'conv_in'],
  ['time_embed.0', 'time_embedding.linear_1'],
  ['time_embed.2', 'time_embedding.linear_2'],
  ['label_emb.0.0', 'add_embedding.linear_1'],
  ['label_emb.0.2', 'add_embedding.linear_2'],
  ['out.0', 'conv_norm_out'],
  ['out.2', 'conv_out'],
];

/** Names inside a residual block. */
const RESNET: readonly (readonly [sgm: string, diffusers: string])[] = [
  ['in_layers.0', 'norm1'],
  ['in_layers.2', 'conv1'],
  ['out_layers.0', 'norm2'],
  ['out_layers.3', 'conv2'],
  ['emb_layers.1', 'time_emb_proj'],
  ['skip_connection', 'conv_shortcut'],
];

/** Names of OpenCLIP's text encoder, and of the same modules in transformers. */
const TEXT: readonly (readonly [openClip: string, transformers: string])[] = [
  ['attn.out_proj', 'self_attn.out_proj'],
  ['mlp.c_fc', 'mlp.fc1'],
  ['mlp.c_proj', 'mlp.fc2'],
  ['ln_1', 'layer_norm1'],
  ['ln_2', 'layer_norm2'],
];

/** Returns SGM's name of a module of the Diffusers U-Net; undefined for other modules. */
export function sgmName(name: string): string | undefined {
  const found = MODULES.find(([, diffusers]) => diffusers === name);
  if (found !== undefined) return found[0];
  const block = /^(down|up)_blocks\.(\d+)\.(resnets|attentions)\.(\d+)\.(.+)$/.exec(name);
  if (block !== null) {
    const [, way, outer, kind, inner, rest] = block as unknown as string[];
    const sub = kind === 'resnets' ? 0 : 1;
    const tail = sub === 0 ? swap(RESNET, rest as string, 1) : rest;
    const at = Number(outer) * (LAYERS + 1) + Number(inner);
    return way === 'down'
      ? `input_blocks.${at + 1}.${sub}.${tail}`
      : `output_blocks.${at}.${sub}.${tail}`;
  }
  const middle = /^mid_block\.(resnets|attentions)\.(\d+)\.(.+)$/.exec(name);
  if (middle !== null) {
    const [, kind, inner, rest] = middle as unknown as string[];
    if (kind === 'attentions') return `middle_block.1.${rest}`;
    return `middle_block.${2 * Number(inner)}.${swap(RESNET, rest as string, 1)}`;
  }
  const down = /^down_blocks\.(\d+)\.downsamplers\.0\.conv$/.exec(name);
  if (down !== null) return `input_blocks.${(Number(down[1]) + 1) * (LAYERS + 1)}.0.op`;
  return undefined;
}

/** As `sgmName`: where the layer that enlarges is, its place depends on whether the block has attention. */
export function sgmNames(name: string): readonly string[] {
  const up = /^up_blocks\.(\d+)\.upsamplers\.0\.conv$/.exec(name);
  if (up === null) {
    const found = sgmName(name);
    return found === undefined ? [] : [found];
  }
  const at = Number(up[1]) * (LAYERS + 1) + LAYERS;
  return [`output_blocks.${at}.1.conv`, `output_blocks.${at}.2.conv`];
}

/** Returns Diffusers's name of a module of SGM's U-Net; undefined for other modules. */
export function diffusersName(name: string): string | undefined {
  const found = MODULES.find(([sgm]) => sgm === name);
  if (found !== undefined) return found[1];
  const block = /^(input|output)_blocks\.(\d+)\.(\d)\.(.+)$/.exec(name);
  if (block !== null) {
    const [, way, index, sub, rest] = block as unknown as [string, string, string, string, string];
    const at = way === 'input' ? Number(index) - 1 : Number(index);
    const outer = Math.floor(at / (LAYERS + 1));
    const inner = at % (LAYERS + 1);
    const side = way === 'input' ? 'down' : 'up';
    if (rest === 'op') return `down_blocks.${outer}.downsamplers.0.conv`;
    if (rest === 'conv' && way === 'output') return `up_blocks.${outer}.upsamplers.0.conv`;
    if (sub === '0') return `${side}_blocks.${outer}.resnets.${inner}.${swap(RESNET, rest, 0)}`;
    return `${side}_blocks.${outer}.attentions.${inner}.${rest}`;
  }
  const middle = /^middle_block\.(\d)\.(.+)$/.exec(name);
  if (middle === null) return undefined;
  const [, index, rest] = middle as unknown as [string, string, string];
  if (index === '1') return `mid_block.attentions.0.${rest}`;
  return `mid_block.resnets.${Number(index) / 2}.${swap(RESNET, rest, 0)}`;
}

/** Returns transformers's name of a layer of OpenCLIP's text encoder, or of a module in it; undefined for others. */
export function transformersName(name: string): string | undefined {
  const layer = /^(?:transformer\.)?resblocks\.(\d+)(?:\.(.+))?$/.exec(name);
  if (layer === null) return undefined;
  const module = layer[2] === undefined ? '' : `.${swap(TEXT, layer[2], 0)}`;
  return `text_model.encoder.layers.${layer[1]}${module}`;
}

function swap(table: readonly (readonly [string, string])[], name: string, from: 0 | 1): string {
  const found = table.find((pair) => pair[from] === name);
  return found === undefined ? name : (found[1 - from] as string);
}
