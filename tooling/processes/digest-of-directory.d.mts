export declare function digestOfDirectory(directory: string): string;
