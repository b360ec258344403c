import { UsageError } from '@mtl/errors';
import { provideAddon } from '../native/addon.js';
import type { KernelsAddon } from '../native/kernels-addon.js';

/**
 * Makes this package use the kernels that a worker of a web page has loaded. `kernels` is the result of
 * `loadKernels` from `@mtl/kernels-wasm32/load-in-page.mjs`. Must be called once, before any other function
 * of this package.
 *
 * @throws UsageError MTL_ARGUMENT if `kernels` is anything else, or if kernels are already loaded
 */
export function useKernels(kernels: object): void {
  if (typeof (kernels as Partial<KernelsAddon>)?.host !== 'function') {
    throw new UsageError('MTL_ARGUMENT', 'useKernels was given something else', {
      expected: 'what loadKernels of @mtl/kernels-wasm32/load-in-page.mjs returns, awaited',
    });
  }
  provideAddon({ addon: kernels as KernelsAddon, path: 'mtl_kernels.wasm', isWebAssembly: true });
}
