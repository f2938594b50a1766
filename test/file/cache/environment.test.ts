import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { hubSettings } from '../../../src/file/cache/environment.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
const home = join(folder, 'home');
mkdirSync(join(home, '.cache', 'huggingface'), { recursive: true });
writeFileSync(join(home, '.cache', 'huggingface', 'token'), 'hf_default\n');
writeFileSync(join(folder, 'token'), '  hf_file\r\n');
writeFileSync(join(folder, 'empty'), '\n');

afterAll(() => rmSync(folder, { recursive: true }));

const tokenOf = (environment: Record<string, string>): string | undefined =>
  hubSettings({ HOME: home, ...environment }).readToken();

describe('the token', () => {
  it.each([
    [{}, 'hf_default'],
    [{ HF_TOKEN: ' hf_variable\n' }, 'hf_variable'],
    [{ HF_TOKEN: 'hf_new', HUGGING_FACE_HUB_TOKEN: 'hf_old' }, 'hf_new'],
    [{ HUGGING_FACE_HUB_TOKEN: 'hf_old', HF_TOKEN_PATH: join(folder, 'token') }, 'hf_old'],
    [{ HF_TOKEN: ' ', HF_TOKEN_PATH: join(folder, 'token') }, 'hf_file'],
    [{ HF_HOME: folder }, 'hf_file'],
    [{ HF_HOME: '$HOME/../' }, 'hf_file'],
    [{ HF_TOKEN_PATH: '~/../token' }, 'hf_file'],
    [{ HF_TOKEN_PATH: join(folder, 'token'), HF_HOME: home }, 'hf_file'],
    [{ XDG_CACHE_HOME: join(home, '.cache') }, 'hf_default'],
    [{ HF_HOME: home }, undefined],
    [{ HF_TOKEN_PATH: join(folder, 'empty') }, undefined],
    [{ HF_TOKEN_PATH: folder }, undefined],
    [{ HF_TOKEN: 'hf_variable', HF_HUB_DISABLE_IMPLICIT_TOKEN: '1' }, undefined],
    [{ HF_TOKEN: 'hf_variable', HF_HUB_DISABLE_IMPLICIT_TOKEN: '0' }, 'hf_variable'],
  ])('by %j', (environment, expected) => {
    expect(tokenOf(environment as Record<string, string>)).toBe(expected);
  });
});

describe('the endpoint', () => {
  it('is that of HF_ENDPOINT', () => {
    expect(hubSettings({}).endpoint).toBe('https://huggingface.co');
    expect(hubSettings({ HF_ENDPOINT: '' }).endpoint).toBe('https://huggingface.co');
    expect(hubSettings({ HF_ENDPOINT: ' https://mirror.example/ ' }).endpoint).toBe(
      'https://mirror.example/',
    );
  });
});

describe('offline', () => {
  it('is said by two variables, in any case', () => {
    for (const value of ['1', 'on', 'Yes', 'TRUE']) {
      expect(hubSettings({ HF_HUB_OFFLINE: value }).isOffline).toBe(true);
      expect(hubSettings({ TRANSFORMERS_OFFLINE: value }).isOffline).toBe(true);
    }
    for (const value of ['', '0', 'off', 'x']) {
      expect(hubSettings({ HF_HUB_OFFLINE: value }).isOffline).toBe(false);
    }
  });
});
