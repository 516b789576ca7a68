/* A stand-in for libnvidia-ml.so.1: the part of NVML's C interface that gatekit uses, as nvml.h declares it.

   Its answers are the lines `key=value` of the file that NVML_STAND_IN names, read at each start. A key may end in the
   number of a GPU (`total.3`), and of a MIG device of it (`total.3.0`); without numbers it speaks for all. Values are
   memory in MiB, power in mW; `KEY_error` is what the function about KEY returns instead of success. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUCCESS 0
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define INVALID_ARGUMENT 2
#define MIB (1ULL << 20)
#define GPUS 64
#define PARTS 8

typedef struct { int gpu, part, calls; } Device;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } Process;

static char text[65536];
static Device whole[GPUS], parts[GPUS][PARTS];

static const char *find(const char *key) {
    static char value[4096];
    size_t length = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, key, length) && line[length] == '=') {
            size_t size = strcspn(line + length + 1, "\n");
            if (size >= sizeof value) size = sizeof value - 1;
            memcpy(value, line + length + 1, size);
            value[size] = 0;
            return value;
        }
    return NULL;
}

static const char *of(const Device *device, const char *key, const char *otherwise) {
    char full[96];
    const char *found = NULL;
    if (device && device->part >= 0) {
        snprintf(full, sizeof full, "%s.%d.%d", key, device->gpu, device->part);
        found = find(full);
    }
    if (device && !found) {
        snprintf(full, sizeof full, "%s.%d", key, device->gpu);
        found = find(full);
    }
    if (!found) found = find(key);
    return found ? found : otherwise;
}

static unsigned long long number(const Device *device, const char *key) {
    return strtoull(of(device, key, "0"), NULL, 10);
}

static int copy(const char *found, char *out, unsigned int size) {
    if (strlen(found) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, found);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    memset(text, 0, sizeof text);
    FILE *file = fopen(getenv("NVML_STAND_IN"), "r");
    if (!file) return 999;
    if (fread(text, 1, sizeof text - 1, file) == 0) text[0] = 0;
    fclose(file);
    const char *touched = find("touched");
    if (touched && (file = fopen(touched, "w"))) fclose(file);
    sleep((unsigned int)number(NULL, "hang"));
    if (find("says")) puts(find("says"));
    fflush(stdout);
    if (find("exit")) exit((int)number(NULL, "exit"));
    if (number(NULL, "crash")) raise(SIGSEGV);
    for (int gpu = 0; gpu < GPUS; gpu++) {
        whole[gpu] = (Device){gpu, -1, 0};
        for (int part = 0; part < PARTS; part++) parts[gpu][part] = (Device){gpu, part, 0};
    }
    return (int)number(NULL, "init_error");
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
    (void)code;
    return "an error of the stand-in";
}

int nvmlSystemGetDriverVersion(char *out, unsigned int size) { return copy(of(NULL, "driver", "570.124"), out, size); }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = (unsigned int)number(NULL, "count");
    return (int)number(NULL, "count_error");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device **device) {
    if (index >= number(NULL, "count") || index >= GPUS) return INVALID_ARGUMENT;
    *device = &whole[index];
    return (int)number(*device, "handle_error");
}

int nvmlDeviceGetName(Device *device, char *out, unsigned int size) { return copy(of(device, "name", ""), out, size); }

int nvmlDeviceGetUUID(Device *device, char *out, unsigned int size) {
    char made[40];
    snprintf(made, sizeof made, "GPU-%08d-feed", device->gpu);
    return copy(of(device, "uuid", made), out, size);
}

int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    unsigned long long reserved = number(device, "reserved");
    memory->total = number(device, "total") * MIB;
    memory->used = (number(device, "used") + reserved) * MIB; /* the first version counts the driver's own too */
    memory->free = memory->total - memory->used;
    return (int)number(device, "memory_error");
}

int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory2 *memory) {
    if (memory->version != (sizeof(Memory2) | 2U << 24)) return 25;
    memory->total = number(device, "total") * MIB;
    memory->reserved = number(device, "reserved") * MIB;
    memory->used = number(device, "used") * MIB;
    memory->free = memory->total - memory->reserved - memory->used;
    int error = (int)number(device, "memory_v2_error");
    return error ? error : (int)number(device, "memory_error");
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    return sscanf(of(device, "capability", "9.0"), "%d.%d", major, minor) == 2 ? SUCCESS : 999;
}

int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned int *limit) {
    *limit = (unsigned int)number(device, "power");
    return (int)number(device, "power_error");
}

/* PID:MIB,PID:MIB; with too little room the count that is needed, as nvml.h says. */
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned int *count, Process *out) {
    unsigned int found = 0, room = *count;
    int error = (int)number(device, "processes_error");
    if (error) return error;
    char list[4096];
    snprintf(list, sizeof list, "%s", of(device, "processes", ""));
    for (char *rest = list, *one; (one = strsep(&rest, ","));) {
        unsigned int pid;
        long long used;
        if (sscanf(one, "%u:%lld", &pid, &used) != 2) continue;
        if (out && found < room)
            out[found] = (Process){pid, used < 0 ? ~0ULL : (unsigned long long)used * MIB, ~0U, ~0U};
        found++;
    }
    if (out && (unsigned long long)device->calls++ < number(device, "growing")) room = 0;
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetMigMode(Device *device, unsigned int *current, unsigned int *pending) {
    *current = *pending = (unsigned int)number(device, "mig");
    return (int)number(device, "mig_error");
}

int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned int *count) {
    (void)device;
    *count = PARTS;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned int index, Device **part) {
    if (index >= number(device, "parts") || index >= PARTS) return NOT_FOUND;
    *part = &parts[device->gpu][index];
    return SUCCESS;
}
