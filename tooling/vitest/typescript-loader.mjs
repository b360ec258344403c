// Lets a process or worker thread import TypeScript sources. Load it with `--import` in a process, or as the
// `preload` of a rank's thread.
import { register } from 'node:module';

// with source maps, stack traces name the lines of the sources
process.setSourceMapsEnabled(true);
const compiler = import.meta.resolve('esbuild');
register('./typescript-hooks.mjs', { parentURL: import.meta.url, data: { compiler } });
