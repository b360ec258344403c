import { readFileSync } from 'node:fs';

const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  readonly version: string;
};

/**
 * The version whose files the present code writes: of a prerelease the version that it precedes, and before
 * any release (0.0.0) the first one.
 */
export const compatibleVersion = version === '0.0.0' ? '0.1.0' : version.replace(/-.*$/, '');
