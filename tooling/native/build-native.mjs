#!/usr/bin/env node
/**
 * Builds the native addon of the package in the working directory.
 *   node build-native.mjs [--build-dir build/Release] [--target NAME] [-DNAME=VALUE ...]
 */
import { buildNative } from './native-build.mjs';

await buildNative({ directory: process.cwd(), args: process.argv.slice(2) });
