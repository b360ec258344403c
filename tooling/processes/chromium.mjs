import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);
export const hasChromium = executablePath !== undefined;

const flags = [
  ...['--headless', '--no-sandbox', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
];

/** The flags for each kind of GPU: none, or a GPU in software. */
const gpuFlags = {
  none: ['--disable-gpu'],
  software: ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader', '--enable-unsafe-swiftshader'],
};

/**
 * Starts this machine's Chromium, with one empty page and a profile that `close` removes.
 *
 * @param {object} [options]
 * @param {keyof typeof gpuFlags} [options.gpu] default: none
 * @param {{ width: number, height: number }} [options.viewport]
 * @returns {Promise<import('playwright-core').BrowserContext>}
 */
export function openChromium({ gpu = 'none', ...options } = {}) {
  // if the profile has no path, playwright-core keeps it in a temporary folder
  return chromium.launchPersistentContext('', {
    executablePath,
    args: [...flags, ...gpuFlags[gpu]],
    ...options,
  });
}
