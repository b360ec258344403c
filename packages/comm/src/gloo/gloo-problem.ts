import { addon, callNative } from '../native/addon.js';

/** Where the shim library is, when not next to the addon. */
export function glooLibrary(): string {
  return process.env.MTL_GLOO_LIBRARY ?? '';
}

/** Why the gloo engine cannot be used on this machine (Debian's libgloo is optional), or undefined. */
export function glooProblem(): string | undefined {
  return callNative(() => addon().glooProblem(glooLibrary()));
}
