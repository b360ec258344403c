import { expect, it } from 'vitest';
import { hubSettings } from './hub-settings.js';

it.each([
  [{ HOME: '/h' }, '/h/.cache/huggingface/hub'],
  [{ HOME: '/h', XDG_CACHE_HOME: '/x' }, '/x/huggingface/hub'],
  [{ HOME: '/h', HF_HOME: '~/models' }, '/h/models/hub'],
  [{ HF_HOME: '/m', HUGGINGFACE_HUB_CACHE: '/old' }, '/old'],
  [{ HF_HOME: '/m', HUGGINGFACE_HUB_CACHE: '/old', HF_HUB_CACHE: '$DISK/new', DISK: '/d' }, '/d/new'],
])('the cache of %j is %s', (environment: Record<string, string>, expected) => {
  expect(hubSettings(environment).cacheDirectory).toBe(expected);
});

it.each([
  ['1', true],
  ['on', true],
  ['0', false],
  ['', false],
])('HF_HUB_OFFLINE=%s means %s', (value, expected) => {
  expect(hubSettings({ HF_HUB_OFFLINE: value }).isOffline).toBe(expected);
});

it('leaves a slash at the end of HF_ENDPOINT out', () => {
  expect(hubSettings({ HF_ENDPOINT: 'https://mirror.example/hub/' }).endpoint).toBe(
    'https://mirror.example/hub',
  );
});
