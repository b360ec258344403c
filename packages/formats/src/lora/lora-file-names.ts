/** The files of a directory of adapters, as PEFT names them. */
export const loraConfigName = 'adapter_config.json';
export const loraWeightsName = 'adapter_model.safetensors';

/**
 * The first version of PEFT that stores the factors of experts as they are here: versions before it have A
 * where B is, of transposed matrices.
 */
export const versionOfParameters = '0.19.1';
