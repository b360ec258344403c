import { describe, expect, it } from 'vitest';
import { trackingOfRun } from './tracking-of-run.js';

const checkpoint = { save: 'runs/tiny/' };
const ofRun = (services: object, environment: Readonly<Record<string, string>> = {}) =>
  trackingOfRun({ logging: services, checkpoint }, environment);
const wandb = { project: 'gpt' };

describe('trackingOfRun', () => {
  it('names a run after its folder, and asks the usual place', () => {
    expect(ofRun({})).toBeUndefined();
    const mlflow = { trackingUri: 'http://host', experiment: 'a' };
    expect(ofRun({ wandb, mlflow }, { WANDB_API_KEY: 'key' })).toEqual({
      settings: {
        wandb: { project: 'gpt', name: 'tiny', baseUrl: 'https://api.wandb.ai' },
        mlflow: { ...mlflow, name: 'tiny' },
      },
      isWandbOffline: false,
    });
    const own = { WANDB_API_KEY: 'key', WANDB_BASE_URL: 'http://host:8080/' };
    expect(ofRun({ wandb }, own)?.settings.wandb?.baseUrl).toBe('http://host:8080');
  });

  it('follows WANDB_MODE', () => {
    expect(ofRun({ wandb }, { WANDB_MODE: 'offline' })?.isWandbOffline).toBe(true);
    expect(ofRun({ wandb }, { WANDB_MODE: 'dryrun' })?.isWandbOffline).toBe(true);
    expect(ofRun({ wandb }, { WANDB_MODE: 'disabled' })).toBeUndefined();
  });

  it.each([
    [{}, 'MTL_WANDB_API_KEY'],
    [{ WANDB_API_KEY: ' ' }, 'MTL_WANDB_API_KEY'],
    [{ WANDB_API_KEY: 'key', WANDB_MODE: 'later' }, 'MTL_WANDB_MODE'],
    [{ WANDB_API_KEY: 'key', WANDB_BASE_URL: 'https://me:key@host' }, 'MTL_SERVICE_URL'],
    [{ WANDB_API_KEY: 'key', HTTPS_PROXY: 'ftp://proxy' }, 'MTL_PROXY'],
  ])('refuses %j before anything is built', (environment, code) => {
    expect(() => ofRun({ wandb }, environment as Record<string, string>)).toThrow(
      expect.objectContaining({ code }),
    );
  });
});
