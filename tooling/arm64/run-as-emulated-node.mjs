/**
 * A module that the emulated Node.js imports first, and Node.js whose children shall be emulated: what a
 * program starts with `process.execPath` is then the emulated Node.js, because Linux cannot run the
 * executable itself.
 */
import { fileURLToPath } from 'node:url';

process.execPath = fileURLToPath(new URL('../build/arm64/node', import.meta.url));
