/** The files of a directory of adapters, as PEFT names them. */
export const loraConfigName = 'adapter_config.json';
export const loraWeightsName = 'adapter_model.safetensors';
