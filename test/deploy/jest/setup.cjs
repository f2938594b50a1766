process.env.SAFETENSORS_MMAP_ADDON = `node_modules/safetensors-mmap/prebuilds/${process.platform}-${process.arch}/safetensors-mmap.node`;
