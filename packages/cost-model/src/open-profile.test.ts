import { describe, expect, it } from 'vitest';
import { loadProfile } from './open-profile.js';
import { parseProfile } from './profiles/profile.js';

const names = [
  'a100-80gb-megatron',
  'a100-80gb-megatron-2021',
  'a100-80gb-deepspeed',
  'a100-80gb-zero3',
  'v100-32gb-megatron',
  'h100-80gb-megatron',
  'h100-96gb-torchtitan',
  'a100-80gb',
  'h100-80gb',
  'h200-141gb',
];

describe('loadProfile', () => {
  it.each(names)('%s names the source of every constant', (name) => {
    const profile = loadProfile(name);
    expect(profile.name).toBe(name);
    const sources = JSON.stringify(profile).match(/"source":"[^"]+"/g)!;
    expect(sources.length).toBeGreaterThan(20);
    expect(sources.filter((source) => source.includes('start of the fit'))).toEqual([]);
  });

  it('refuses other names with the nearest', () => {
    expect(() => loadProfile('a100-80gb-megatro')).toThrow(
      expect.objectContaining({ code: 'MTL_PROFILE_NAME', remedy: 'did you mean a100-80gb-megatron?' }),
    );
  });
});

describe('parseProfile', () => {
  const profile = loadProfile('a100-80gb');

  it('accepts what loadProfile returns', () => {
    expect(parseProfile(JSON.parse(JSON.stringify(profile)))).toEqual(profile);
  });

  it.each([
    [{ value: 8 }, 'own.json: hardware.gpusPerNode.source'],
    [{ value: 0, source: 'none' }, 'own.json: hardware.gpusPerNode.value'],
  ])('refuses the constant %j', (gpusPerNode, message) => {
    const wrong = { ...profile, hardware: { ...profile.hardware, gpusPerNode } };
    expect(() => parseProfile(wrong, 'own.json')).toThrow(message);
    expect(() => parseProfile(wrong)).toThrow(expect.objectContaining({ code: 'MTL_PROFILE' }));
  });
});
