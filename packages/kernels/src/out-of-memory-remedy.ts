/** Of `MTL_OUT_OF_MEMORY`, on a device as on the host. */
export const outOfMemoryRemedy =
  'dispose of tensors that are no longer needed (tidy does so at the end of a scope), or take smaller batches and shorter sequences; a limit set by limitMemory(device, bytes) is lifted by limitMemory(device, 0)';
