/** Notes that tests have run the kernels of an instruction set on this processor; `npm test` lists them. */
export declare function reportInstructionSet(name: string): void;
