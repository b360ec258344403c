import { addon } from './native/addon.js';

/**
 * An external value through which another native addon reaches the memory of tensors by their handles
 * (native/include/mtl/tensor_handle.h describes it).
 */
export function tensorApi(): unknown {
  return addon().tensorApi;
}
